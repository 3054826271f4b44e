// From the columns of a case to the layout of its KV: which model, which types, which share of a rank.
#ifndef ROOFLINE_CASE_FACTS_H
#define ROOFLINE_CASE_FACTS_H

#include "roofline/cases.h"

// How llama.cpp kept a model with latent attention: it did not (K and V of every head), it kept the latent twice (576 for
// K, 512 for V), or once.
enum latent_form { LATENT_ONCE, LATENT_TWICE, LATENT_UNFOLDED };

// What can be assumed where the row does not say.
struct case_guess {
    enum dtype kv; // where kv_dtype is blank
    int32_t tp;    // where tp is blank
    enum latent_form latent;
};

struct case_facts {
    struct kv_layout layout;
    bool kv_stated, tp_stated;
    bool latent_form_open; // llama.cpp and MLA: the form has to be tried
    char model[64];
};

// False with the fact that is missing in `reason` when the row does not carry enough.
bool case_facts_read(const struct kv_case *c, enum serving_engine engine, const struct case_guess *guess,
                     const struct catalogue_name *names, int n_names, struct case_facts *out, char reason[200]);

// A number that fills the whole field. *half_digit: half a unit of its last printed digit.
bool case_number(const char *text, double *out, double *half_digit);

// The number behind a word, as in "DCP8", "dcp=8", "DCP 8"; 0 if there is none.
int32_t case_number_after(const char *text, const char *word);

#endif
