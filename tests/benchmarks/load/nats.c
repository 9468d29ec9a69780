/* NATS JetStream: publish with an acknowledgement. The stream must exist. target: the subject's first word. */
#define _GNU_SOURCE
#include "load.h"

#include <stdlib.h>
#include <string.h>

static void open_connection(struct connection *c, const struct settings *s) {
    (void)s;
    put_text(&c->out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\nSUB _INBOX.%d 1\r\nPING\r\n",
             c->number);
}
static void request(struct connection *c, const struct settings *s) {
    put_text(&c->out, "PUB %s.%d _INBOX.%d %zu\r\n", s->target, c->number, c->number, s->payload_bytes);
    put(&c->out, s->payload, s->payload_bytes);
    put(&c->out, "\r\n", 2);
}
static int answers(struct connection *c, const struct settings *s) {
    int answered = 0;
    (void)s;
    for (;;) {
        const uint8_t *start = peek(c), *line_end = memchr(start, '\n', available(c));
        if (!line_end) return answered;
        size_t line = (size_t)(line_end + 1 - start);
        if (!memcmp(start, "PING", 4)) put_text(&c->out, "PONG\r\n");
        else if (!memcmp(start, "PONG", 4)) c->ready = 1;
        else if (!memcmp(start, "-ERR", 4)) fail("refused: %.*s", (int)line, (const char *)start);
        else if (!memcmp(start, "MSG", 3)) {
            const uint8_t *last = memrchr(start, ' ', line);
            size_t size = strtoul((const char *)last, NULL, 10);
            if (available(c) < line + size + 2) return answered;
            if (!memmem(start + line, size, "\"seq\"", 5)) fail("refused: %.*s", (int)size, (const char *)start + line);
            line += size + 2;
            answered++;
        } else if (!memcmp(start, "HMSG", 4)) fail("no stream takes this subject");
        consume(c, line);
    }
}
const struct protocol nats_publish = {"nats-publish", open_connection, NULL, request, answers};
