/* The connector protocol, version 3: messages of one stream for each connection. The stream begins anew in each run. */
#include "load.h"

#include <string.h>

enum { OK = 1, ERROR = 2, NOTIFY = 3, NOTIFY_ACK = 4, MESSAGE = 5, ACK = 6 };

static void put_short(struct bytes *to, const char *text) { put_u16(to, (unsigned)strlen(text)), put(to, text, strlen(text)); }

static void open_connection(struct connection *c, const struct settings *s) {
    struct bytes hello = {0};
    (void)s;
    put_u8(&hello, 0), put_short(&hello, "0.0.1"), put_short(&hello, ""), put_short(&hello, "load"), put_short(&hello, "");
    put_u32(&c->out, (uint32_t)hello.length), put(&c->out, hello.data, hello.length);
}
static uint64_t stream_of(const struct connection *c) { return get_u64(c->identity) >> 1; }

static void notify(struct connection *c) {
    put_u32(&c->out, 1 + 8 + 2 + 4 + 8), put_u8(&c->out, NOTIFY), put_u64(&c->out, stream_of(c)), put_short(&c->out, "load");
    put_u64(&c->out, UINT64_MAX);
    c->window--;
}
static int may_send(const struct connection *c, const struct settings *s) {
    (void)s;
    return c->window > 0;
}
static void request(struct connection *c, const struct settings *s) {
    put_u32(&c->out, (uint32_t)(1 + 8 + 8 + 8 + 2 + s->payload_bytes)), put_u8(&c->out, MESSAGE);
    put_u64(&c->out, stream_of(c)), put_u64(&c->out, c->offset++), put_u64(&c->out, 0), put_u16(&c->out, 0);
    put(&c->out, s->payload, s->payload_bytes);
    c->window--;
}
static int answers(struct connection *c, const struct settings *s) {
    int answered = 0;
    (void)s;
    while (available(c) >= 4 && available(c) >= 4 + (size_t)get_u32(peek(c))) {
        const uint8_t *frame = peek(c) + 4;
        size_t length = get_u32(peek(c));
        if (frame[0] == OK) {
            c->window = get_u32(frame + 1);
            notify(c);
        } else if (frame[0] == NOTIFY_ACK) {
            if (!frame[1]) fail("the stream was refused");
            c->ready = 1;
        } else if (frame[0] == ACK) { /* credits, and how far the stream is: all up to there is durable */
            c->window += get_u32(frame + 1);
            for (uint32_t i = 0; i < get_u32(frame + 5); i++) {
                uint64_t point = get_u64(frame + 9 + 16 * i + 8);
                if (point != UINT64_MAX && point + 1 > c->stage) answered += (int)(point + 1 - c->stage), c->stage = point + 1;
            }
        } else fail("refused: %.*s", (int)(length - 1), (const char *)frame + (frame[0] == ERROR ? 3 : 1));
        consume(c, 4 + length);
    }
    return answered;
}
const struct protocol connector_send = {"connector", open_connection, may_send, request, answers};
