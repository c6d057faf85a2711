/*
 * TLS over OpenSSL. See tls.h.
 *
 * The key and its name are made from the token by HMAC. Each side offers or looks for that one key, and a handshake
 * without it fails: the accepting side has no certificate, and the calling side trusts none. Bytes pass through a BIO of
 * our own, since OpenSSL's raises SIGPIPE where a program does not ignore it.
 *
 * A record that the socket does not take at once is OpenSSL's until it does. What it was made of is kept here, and counts
 * as written only then: so a caller who waits until everything is written waits for the socket, and may offer the same
 * bytes in other pieces.
 */
#include "net/tls.h"

#include "base/hex.h"
#include "base/secret.h"
#include "net/stream.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define RECORD_BYTES ((size_t)16 << 10)
#define RENEW_RECORDS ((uint64_t)1 << 22) /* 64 GB; AES-GCM allows some 2^24.5 records a key */
#define NAME_SIZE 33                      /* 32 hexadecimal digits */

static const unsigned char cipher_id[] = {0x13,
                                          0x01}; /* TLS_AES_128_GCM_SHA256; its hash is the key's */

struct culm_tls {
    SSL *ssl;
    int fd;
    int cause;                   /* errno of the socket, while it is broken */
    int read_waits, write_waits; /* events of the socket */
    bool known;                  /* the other side has the token */
    bool broken;
    uint8_t key[CULM_MAC_BYTES];
    char name[NAME_SIZE];
    uint64_t records, renew_after; /* written with these keys */
    size_t making;                 /* bytes of `record` that OpenSSL has not been able to write */
    size_t owed;                   /* bytes of it that are written, and were not told of yet */
    uint8_t record[RECORD_BYTES];
};

/* --- what all connections share --- */

static struct {
    pthread_once_t once;
    SSL_CTX *context;
    BIO_METHOD *method;
} shared = {.once = PTHREAD_ONCE_INIT};

static int bio_write(BIO *bio, const char *data, int len) {
    struct culm_tls *tls = BIO_get_data(bio);
    ssize_t put;
    do {
        put = send(tls->fd, data, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (put < 0 && errno == EINTR);
    BIO_clear_retry_flags(bio);
    if (put < 0 && errno == EAGAIN) {
        BIO_set_retry_write(bio);
    } else if (put < 0) {
        tls->cause = errno;
    }
    return put < 0 ? -1 : (int)put;
}

static int bio_read(BIO *bio, char *data, int len) {
    struct culm_tls *tls = BIO_get_data(bio);
    ssize_t got;
    do {
        got = recv(tls->fd, data, (size_t)len, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    BIO_clear_retry_flags(bio);
    if (got < 0 && errno == EAGAIN) {
        BIO_set_retry_read(bio);
    } else if (got < 0) {
        tls->cause = errno;
    } else if (got == 0) {
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    }
    return got < 0 ? -1 : (int)got;
}

static long bio_control(BIO *bio, int what, long number, void *pointer) {
    (void)number;
    (void)pointer;
    if (what == BIO_CTRL_EOF) {
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    }
    return what == BIO_CTRL_FLUSH;
}

static SSL_SESSION *session_of(const struct culm_tls *tls) {
    SSL_SESSION *session = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(tls->ssl, cipher_id);
    if (session && cipher && SSL_SESSION_set1_master_key(session, tls->key, sizeof tls->key) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION)) {
        return session;
    }
    SSL_SESSION_free(session);
    return NULL;
}

/* The calling side offers its key. */
static int on_use(SSL *ssl, const EVP_MD *hash, const unsigned char **ret_name, size_t *ret_len,
                  SSL_SESSION **ret_session) {
    const struct culm_tls *tls = SSL_get_app_data(ssl);
    (void)hash; /* both ciphers that are allowed have the key's */
    *ret_name = (const unsigned char *)tls->name;
    *ret_len = NAME_SIZE - 1;
    *ret_session = session_of(tls);
    return *ret_session != NULL;
}

/* The accepting side looks for it. */
static int on_find(SSL *ssl, const unsigned char *name, size_t len, SSL_SESSION **ret_session) {
    const struct culm_tls *tls = SSL_get_app_data(ssl);
    bool ours = len == NAME_SIZE - 1 && memcmp(name, tls->name, len) == 0;
    *ret_session = ours ? session_of(tls) : NULL;
    return !ours || *ret_session;
}

static void make_shared(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "culm socket");
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (!method || !context || !BIO_meth_set_write(method, bio_write) ||
        !BIO_meth_set_read(method, bio_read) || !BIO_meth_set_ctrl(method, bio_control) ||
        !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") ||
        !SSL_CTX_set_num_tickets(context, 0)) {
        BIO_meth_free(method);
        SSL_CTX_free(context);
        return;
    }
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_TICKET);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_psk_use_session_callback(context, on_use);
    SSL_CTX_set_psk_find_session_callback(context, on_find);
    shared.method = method;
    shared.context = context;
}

/* --- life --- */

static enum culm_status make_key(struct culm_tls *tls, const char *token) {
    static const char key_of[] = "culm tls 1: key", name_of[] = "culm tls 1: name";
    uint8_t name[CULM_MAC_BYTES];
    enum culm_status status =
        culm_secret_mac(token, strlen(token), key_of, sizeof key_of - 1, tls->key);
    if (status == CULM_OK) {
        status = culm_secret_mac(token, strlen(token), name_of, sizeof name_of - 1, name);
    }
    if (status == CULM_OK) {
        culm_hex(name, NAME_SIZE / 2, tls->name);
    }
    return status;
}

static bool open_ssl(struct culm_tls *tls, bool calls) {
    BIO *bio;
    tls->ssl = SSL_new(shared.context);
    if (!tls->ssl || !(bio = BIO_new(shared.method))) {
        return false;
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_app_data(tls->ssl, tls);
    if (calls) {
        SSL_set_verify(tls->ssl, SSL_VERIFY_PEER, NULL); /* no certificate is good enough */
        SSL_set_connect_state(tls->ssl);
    } else {
        SSL_set_accept_state(tls->ssl);
    }
    return true;
}

enum culm_status culm_tls_new(int borrow_fd, const char *token, bool calls,
                              struct culm_tls **ret_tls, struct culm_error *error) {
    (void)pthread_once(&shared.once, make_shared);
    if (!shared.context) {
        return culm_error_set(error, CULM_ERR_UNSUPPORTED, "libssl cannot do TLS 1.3");
    }
    struct culm_tls *tls = calloc(1, sizeof *tls);
    if (!tls) {
        return culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a connection");
    }
    tls->fd = borrow_fd;
    tls->read_waits = CULM_STREAM_READ;
    tls->write_waits = CULM_STREAM_WRITE;
    tls->renew_after = RENEW_RECORDS;
    enum culm_status status = make_key(tls, token);
    if (status != CULM_OK || !open_ssl(tls, calls)) {
        culm_tls_free(tls);
        return status ? culm_error_set(error, status, "libcrypto cannot make a key")
                      : culm_error_set(error, CULM_ERR_MEMORY, "out of memory for a connection");
    }
    *ret_tls = tls;
    return CULM_OK;
}

void culm_tls_free(struct culm_tls *tls) {
    if (tls) {
        SSL_free(tls->ssl);
        OPENSSL_cleanse(tls->key, sizeof tls->key);
        free(tls);
    }
}

void culm_tls_renew_after(struct culm_tls *tls, uint64_t records) { tls->renew_after = records; }

/* --- reading and writing --- */

/* Why one of them did not go on: -EAGAIN, with what it waits for; 0: the other side has ended; or a broken stream. */
static ssize_t stopped(struct culm_tls *tls, int *ret_waits) {
    tls->known |= SSL_is_init_finished(tls->ssl);
    switch (SSL_get_error(tls->ssl, 0)) {
    case SSL_ERROR_WANT_READ: *ret_waits = CULM_STREAM_READ; return -EAGAIN;
    case SSL_ERROR_WANT_WRITE: *ret_waits = CULM_STREAM_WRITE; return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_SYSCALL: tls->cause = tls->cause ? tls->cause : ECONNRESET; break;
    default: tls->cause = tls->known ? EBADMSG : EKEYREJECTED; break;
    }
    tls->broken = true;
    ERR_clear_error();
    return -tls->cause;
}

ssize_t culm_tls_read(struct culm_tls *tls, const struct iovec *to, int count) {
    size_t all = 0;
    for (int i = 0; i < count && !tls->broken; i++) {
        for (size_t at = 0, got; at < to[i].iov_len; at += got, all += got) {
            ERR_clear_error();
            if (!SSL_read_ex(tls->ssl, (uint8_t *)to[i].iov_base + at, to[i].iov_len - at, &got)) {
                ssize_t why = stopped(tls, &tls->read_waits);
                return all ? (ssize_t)all : why;
            }
            tls->known = true;
            tls->read_waits = CULM_STREAM_READ;
        }
    }
    return all || !tls->broken ? (ssize_t)all : -tls->cause;
}

/* The next record's bytes; 0: there are none. */
static size_t gather(struct culm_tls *tls, const struct iovec *from, int count) {
    size_t len = 0;
    for (int i = 0; i < count && len < RECORD_BYTES; i++) {
        size_t part = from[i].iov_len < RECORD_BYTES - len ? from[i].iov_len : RECORD_BYTES - len;
        if (part) {
            memcpy(tls->record + len, from[i].iov_base, part);
        }
        len += part;
    }
    return len;
}

static size_t total(const struct iovec *from, int count) {
    size_t len = 0;
    for (int i = 0; i < count; i++) {
        len += from[i].iov_len;
    }
    return len;
}

/* Between two records. */
static void renew(struct culm_tls *tls) {
    if (tls->records >= tls->renew_after && tls->known &&
        SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED)) {
        tls->records = 0;
    }
}

static ssize_t write_record(struct culm_tls *tls) {
    size_t put;
    ERR_clear_error();
    if (!SSL_write_ex(tls->ssl, tls->record, tls->making, &put)) {
        ssize_t why = stopped(tls, &tls->write_waits);
        return why ? why : -EPIPE;
    }
    tls->known = true;
    tls->records++;
    tls->write_waits = CULM_STREAM_WRITE;
    tls->owed = tls->making;
    tls->making = 0;
    return 0;
}

ssize_t culm_tls_write(struct culm_tls *tls, const struct iovec *from, int count) {
    const size_t offered = total(from, count);
    if (tls->broken) {
        return -tls->cause;
    }
    if (!tls->owed) {
        if (!tls->making) {
            renew(tls);
            tls->making = gather(tls, from, count);
        }
        ssize_t why = tls->making ? write_record(tls) : 0;
        if (why) {
            return why;
        }
    }
    size_t told = tls->owed < offered ? tls->owed : offered;
    tls->owed -= told;
    return (ssize_t)told;
}

enum culm_status culm_tls_error(int cause, struct culm_error *error) {
    if (cause == EKEYREJECTED) {
        return culm_error_set(error, CULM_ERR_CONFIG,
                              "wrong token: that address belongs to another run, or not to culm");
    }
    culm_error_errno(error, cause, "receive");
    if (error) {
        error->status = CULM_ERR_CLOSED;
    }
    return CULM_ERR_CLOSED;
}

int culm_tls_waits(const struct culm_tls *tls, int events) {
    return (events & CULM_STREAM_READ ? tls->read_waits : 0) |
           (events & CULM_STREAM_WRITE ? tls->write_waits : 0);
}

bool culm_tls_holds(const struct culm_tls *tls) { return SSL_pending(tls->ssl) > 0; }

void culm_tls_finish(struct culm_tls *tls) {
    if (!tls->broken && tls->known) {
        ERR_clear_error();
        (void)SSL_shutdown(tls->ssl);
        ERR_clear_error();
    }
}
