/* What the engine (load.c) and the protocols share. One process, one thread, one epoll. */
#ifndef LOAD_H
#define LOAD_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
    uint8_t *data;
    size_t length, capacity;
};

struct connection {
    int fd, number;
    int ready;               /* set-up has been answered; requests may be sent */
    uint64_t sent, answered; /* requests */
    struct bytes in, out;
    size_t in_start, out_start;
    double *started;         /* ring of `depth` start times */
    uint64_t stage;          /* protocol's own: where in an answer it is */
    uint64_t offset;         /* protocol's own: bytes sent so far, stream number, … */
    int64_t window;          /* protocol's own: flow control */
    uint8_t identity[16];
};

struct settings {
    const char *host, *port, *target; /* target: namespace, stream, path, volume */
    size_t payload_bytes, operations; /* operations: stop after so many answers; 0: when the time is up */
    int clients, depth, objects, one_directory;
    double seconds, warm_up_seconds;
    const uint8_t *payload;
    uint32_t payload_crc;
    const char *token_hex;
};

struct protocol {
    const char *name;
    void (*open)(struct connection *, const struct settings *);          /* queue what opens a connection */
    int (*may_send)(const struct connection *, const struct settings *); /* NULL: always */
    void (*request)(struct connection *, const struct settings *);       /* queue one request */
    /* Take whole answers from connection->in; return how many requests were answered; exits on refusals. */
    int (*answers)(struct connection *, const struct settings *);
};

extern const struct protocol sos_append, sos_get, file_put, file_put_shared, redis_xadd, nats_publish, etcd_put, http_range, connector_send;

void put(struct bytes *, const void *, size_t);
void put_u8(struct bytes *, unsigned);
void put_u16(struct bytes *, unsigned);
void put_u32(struct bytes *, uint32_t);
void put_u64(struct bytes *, uint64_t);
void put_text(struct bytes *, const char *format, ...);
uint32_t get_u32(const uint8_t *);
uint64_t get_u64(const uint8_t *);
uint32_t crc32c(const void *, size_t);

size_t available(const struct connection *);
const uint8_t *peek(const struct connection *);
void consume(struct connection *, size_t);
_Noreturn void fail(const char *format, ...);

#endif
