/*
 * Every gradient of a small graph against central differences of its loss, and the same bits where
 * others are frozen; and which operators were looked at so far. The tests of operators stand in several files of one program. Thread: the
 * test's.
 */
#ifndef TESTS_UNIT_GRAPH_CHECK_H
#define TESTS_UNIT_GRAPH_CHECK_H

#include "build.h"

#define CHECK_SEED 7

/* Of all parameters of a net that net_end has finished; then releases it. */
void check_gradients(struct net *net);
const char *check_missing(void); /* an operator that no net had so far; NULL: none */

/* sequence.c */
void test_lookup(void **state);
void test_positions(void **state);
void test_gather_rows(void **state);
void test_separate_attention(void **state);
void test_lstm(void **state);
void test_bahdanau(void **state);
void test_ignored_targets(void **state);
void test_sequence_shape_errors(void **state);

/* sparse.c */
void test_sparse_linear(void **state);
void test_sparse_linear_bits(void **state);
void test_sparse_linear_words(void **state);
void test_sparse_linear_adds(void **state);
void test_rows_of_layers(void **state);
void test_sparse_worth_words(void **state);
void test_sparse_refusals(void **state);
void test_row_refusals(void **state);
void test_sample_ids(void **state);

/* vision.c */
void test_vision_gradients(void **state);
void test_vision_bits(void **state);
void test_batchnorm_statistics(void **state);
void test_vision_refusals(void **state);
void test_convolution_limits(void **state);

#endif
