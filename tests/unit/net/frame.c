/* Frames: any cutting of the stream gives the same frames; garbage and over-long ones are refused.
 */
#include "net/frame.h"

#include "base/buf.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define FRAMES 40

struct fixture {
    struct culm_blob_pool *pool;
    struct culm_buf stream;
    size_t meta_bytes[FRAMES], payload_bytes[FRAMES];
    unsigned seed;
};

static uint8_t byte_of(size_t frame, size_t at) { return (uint8_t)(frame * 131 + at * 7 + 3); }

static void append(struct culm_buf *stream, size_t index, size_t meta, size_t payload) {
    uint8_t bytes[8192], header[CULM_FRAME_HEADER_BYTES];
    assert_true(meta + payload <= sizeof bytes);
    for (size_t i = 0; i < meta + payload; i++) {
        bytes[i] = byte_of(index, i);
    }
    struct culm_blob fake = {.data = bytes};
    const struct culm_message message = {.type = (uint16_t)(index + 1),
                                         .meta_bytes = (uint32_t)meta,
                                         .meta = bytes,
                                         .payload = payload ? &fake : NULL,
                                         .payload_offset = meta,
                                         .payload_bytes = payload};
    culm_frame_header_encode(&message, header);
    culm_buf_bytes(stream, header, sizeof header);
    culm_buf_bytes(stream, bytes, meta + payload);
}

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    const char *given = getenv("CULM_TEST_SEED");
    f->seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);
    print_message("CULM_TEST_SEED=%u\n", f->seed);
    f->pool = culm_blob_pool_new(0);
    culm_buf_init(&f->stream, (size_t)1 << 24);
    for (size_t i = 0; i < FRAMES; i++) {
        f->meta_bytes[i] = i % 3 ? (size_t)rand_r(&f->seed) % 200 : 0;
        f->payload_bytes[i] = i % 4 ? (size_t)rand_r(&f->seed) % 5000 : 0;
        append(&f->stream, i, f->meta_bytes[i], f->payload_bytes[i]);
    }
    assert_false(f->stream.failed);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    culm_buf_release(&f->stream);
    culm_blob_pool_free(f->pool);
    free(f);
    return 0;
}

static void check(const struct fixture *f, size_t index, const struct culm_message *message) {
    assert_int_equal(message->type, index + 1);
    assert_int_equal(message->meta_bytes, f->meta_bytes[index]);
    assert_int_equal(message->payload_bytes, f->payload_bytes[index]);
    assert_int_equal(message->payload != NULL, f->payload_bytes[index] > 0);
    for (size_t i = 0; i < f->meta_bytes[index]; i++) {
        assert_int_equal(message->meta[i], byte_of(index, i));
    }
    for (size_t i = 0; i < f->payload_bytes[index]; i++) {
        assert_int_equal(((uint8_t *)message->payload->data)[i],
                         byte_of(index, f->meta_bytes[index] + i));
    }
}

/* Chunks of 1..most bytes; now and then part of a payload goes in directly. */
static void read_in_chunks(struct fixture *f, size_t most) {
    struct culm_frame_reader reader;
    culm_frame_reader_init(&reader, f->pool, 200, 5000);
    size_t at = 0, seen = 0;
    while (at < f->stream.len) {
        size_t chunk = 1 + (size_t)rand_r(&f->seed) % most;
        chunk = chunk < f->stream.len - at ? chunk : f->stream.len - at;
        const struct culm_message *message;
        uint8_t *direct;
        size_t space = culm_frame_reader_space(&reader, &direct), used;
        if (space && rand_r(&f->seed) % 2) {
            used = chunk < space ? chunk : space;
            memcpy(direct, f->stream.data + at, used);
            assert_int_equal(culm_frame_reader_wrote(&reader, used, &message, NULL), CULM_OK);
        } else {
            assert_int_equal(
                culm_frame_reader_feed(&reader, f->stream.data + at, chunk, &used, &message, NULL),
                CULM_OK);
        }
        assert_true(used > 0);
        at += used;
        if (message) {
            check(f, seen++, message);
        }
    }
    assert_int_equal(seen, FRAMES);
    culm_frame_reader_release(&reader);
}

static void any_cutting_gives_the_same_frames(void **state) {
    read_in_chunks(*state, 1);
    for (size_t most = 2; most < 20000; most *= 3) {
        read_in_chunks(*state, most);
    }
}

static enum culm_status feed(struct culm_frame_reader *reader, const void *data, size_t len,
                             struct culm_error *error) {
    const struct culm_message *message = NULL;
    size_t used;
    return culm_frame_reader_feed(reader, data, len, &used, &message, error);
}

/* A frame of so many bytes, `change` of them another. */
static void refuses(struct fixture *f, size_t meta, size_t payload, size_t change, uint8_t to,
                    const char *needle) {
    struct culm_buf stream;
    culm_buf_init(&stream, 4096);
    append(&stream, 0, meta, payload);
    stream.data[change] = to;
    struct culm_frame_reader reader;
    struct culm_error error = {0};
    culm_frame_reader_init(&reader, f->pool, 16, 32);
    assert_int_equal(feed(&reader, stream.data, stream.len, &error), CULM_ERR_FORMAT);
    assert_non_null(strstr(error.text, needle));
    culm_frame_reader_release(&reader);
    culm_buf_release(&stream);
}

static void garbage_is_refused(void **state) {
    refuses(*state, 10, 20, 0, 'G', "not a frame");
    refuses(*state, 10, 20, 6, 1, "not a frame");
    refuses(*state, 10, 20, 8, 17, "header of a frame was damaged");
    refuses(*state, 10, 20, 19, 255, "header of a frame was damaged");
    refuses(*state, 10, 20, 24, 255, "header of a frame was damaged");
    refuses(*state, 10, 20, CULM_FRAME_HEADER_BYTES, 255, "frame of type 1 with 10 + 20 bytes");
    refuses(*state, 17, 20, 0, 'C', "over the limit of 16 + 32");
    refuses(*state, 10, 33, 0, 'C', "over the limit of 16 + 32");
}

/* One bit anywhere in a frame: it is refused, or waits for bytes that do not come. */
static void a_flipped_bit_is_noticed(void **state) {
    struct fixture *f = *state;
    struct culm_buf stream;
    size_t refused = 0;
    culm_buf_init(&stream, 4096);
    append(&stream, 0, 37, 1003);
    for (size_t bit = 0; bit < 8 * stream.len; bit++) {
        struct culm_frame_reader reader;
        const struct culm_message *message = NULL;
        enum culm_status status = CULM_OK;
        culm_frame_reader_init(&reader, f->pool, 200, 5000);
        stream.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        for (size_t at = 0, used; at < stream.len && status == CULM_OK && !message; at += used) {
            size_t some = stream.len - at < 100 ? stream.len - at : 100;
            status = culm_frame_reader_feed(&reader, stream.data + at, some, &used, &message, NULL);
        }
        if (message || (status != CULM_OK && status != CULM_ERR_FORMAT)) {
            fail_msg("bit %zu of byte %zu was not noticed", bit % 8, bit / 8);
        }
        refused += status == CULM_ERR_FORMAT;
        stream.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        culm_frame_reader_release(&reader);
    }
    assert_int_equal(refused, 8 * stream.len);
    culm_buf_release(&stream);
}

static void an_exhausted_pool_is_an_error(void **state) {
    (void)state;
    struct culm_blob_pool *pool = culm_blob_pool_new(1024);
    struct culm_buf stream;
    culm_buf_init(&stream, 4096);
    append(&stream, 0, 0, 2000);
    struct culm_frame_reader reader;
    struct culm_error error = {0};
    culm_frame_reader_init(&reader, pool, 0, 4096);
    assert_int_equal(feed(&reader, stream.data, stream.len, &error), CULM_ERR_MEMORY);
    assert_non_null(strstr(error.text, "2000 bytes"));
    culm_frame_reader_release(&reader);
    culm_buf_release(&stream);
    culm_blob_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_cutting_gives_the_same_frames, set_up, tear_down),
        cmocka_unit_test_setup_teardown(garbage_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flipped_bit_is_noticed, set_up, tear_down),
        cmocka_unit_test(an_exhausted_pool_is_an_error),
    };
    return cmocka_run_group_tests_name("net/frame", tests, NULL, NULL);
}
