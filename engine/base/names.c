#include "engine/base/names.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum { LONGEST = 63 };

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

// Levenshtein distance, any case, of words of at most LONGEST characters.
static int distance(const char *a, const char *b, int n_a, int n_b)
{
    int row[LONGEST + 1];
    for (int j = 0; j <= n_b; j++)
        row[j] = j;
    for (int i = 1; i <= n_a; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n_b; j++) {
            int differs = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            int best = min3(row[j] + 1, row[j - 1] + 1, diagonal + differs);
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n_b];
}

const char *names_nearest(const char *word, const char *const *names, int n)
{
    size_t n_word = strlen(word);
    const char *best = NULL;
    int best_distance = (int)n_word / 2 + 1; // further away than half the word is no suggestion
    if (n_word > LONGEST)
        return NULL;
    for (int i = 0; i < n; i++) {
        size_t n_name = strlen(names[i]);
        if (n_name > LONGEST)
            continue;
        int d = distance(word, names[i], (int)n_word, (int)n_name);
        if (d < best_distance)
            best_distance = d, best = names[i];
    }
    return best;
}
