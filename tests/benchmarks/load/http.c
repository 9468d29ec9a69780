/* HTTP/1.1: ranged GET of a file. target: its path; pieces of payload_bytes one after the other, `objects` of them. */
#define _GNU_SOURCE
#include "load.h"

#include <stdlib.h>
#include <string.h>

static void open_connection(struct connection *c, const struct settings *s) {
    (void)s;
    c->ready = 1;
}
static void request(struct connection *c, const struct settings *s) {
    uint64_t offset = c->sent % (uint64_t)s->objects * s->payload_bytes;
    put_text(&c->out, "GET /%s HTTP/1.1\r\nHost: bench\r\nRange: bytes=%lu-%lu\r\n\r\n", s->target, (unsigned long)offset,
             (unsigned long)(offset + s->payload_bytes - 1));
}
static int answers(struct connection *c, const struct settings *s) {
    int answered = 0;
    for (;;) {
        if (c->stage) { /* bytes of the body that are still to come */
            size_t taken = available(c) < c->stage ? available(c) : c->stage;
            consume(c, taken);
            c->stage -= taken;
            if (c->stage) return answered;
            answered++;
        }
        const uint8_t *start = peek(c), *head = available(c) ? memmem(start, available(c), "\r\n\r\n", 4) : NULL;
        if (!head) return answered;
        if (memcmp(start + 9, "206", 3)) fail("refused: %.12s", (const char *)start);
        const char *length = memmem(start, (size_t)(head - start), "Content-Length: ", 16);
        if (!length || strtoul(length + 16, NULL, 10) != s->payload_bytes) fail("an answer of another length");
        c->stage = s->payload_bytes;
        consume(c, (size_t)(head + 4 - start));
    }
}
const struct protocol http_range = {"http-range", open_connection, NULL, request, answers};
