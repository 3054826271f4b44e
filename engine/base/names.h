// Finding what a user meant by a misspelled name.
#ifndef ENGINE_BASE_NAMES_H
#define ENGINE_BASE_NAMES_H

// The name of names[n] nearest to `word` (edit distance, any case), or NULL if none is near enough to suggest.
const char *names_nearest(const char *word, const char *const *names, int n);

#endif
