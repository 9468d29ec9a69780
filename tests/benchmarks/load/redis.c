/* Redis: XADD of one field. */
#include "load.h"

#include <string.h>

static void open_connection(struct connection *c, const struct settings *s) {
    (void)s;
    c->ready = 1;
}
static void request(struct connection *c, const struct settings *s) {
    char key[64];
    struct bytes text = {(uint8_t *)key, 0, sizeof key};
    put_text(&text, "%s-%d", s->target, c->number);
    put_text(&c->out, "*5\r\n$4\r\nXADD\r\n$%zu\r\n%.*s\r\n$1\r\n*\r\n$1\r\nf\r\n$%zu\r\n", text.length, (int)text.length, key,
             s->payload_bytes);
    put(&c->out, s->payload, s->payload_bytes);
    put(&c->out, "\r\n", 2);
}
static int answers(struct connection *c, const struct settings *s) {
    int answered = 0;
    (void)s;
    for (;;) { /* $LENGTH \r\n ID \r\n */
        const uint8_t *start = peek(c), *first = memchr(start, '\n', available(c));
        if (!first) return answered;
        if (*start != '$') fail("refused: %.*s", (int)(first - start), (const char *)start);
        const uint8_t *second = memchr(first + 1, '\n', available(c) - (size_t)(first + 1 - start));
        if (!second) return answered;
        consume(c, (size_t)(second + 1 - start));
        answered++;
    }
}
const struct protocol redis_xadd = {"redis-xadd", open_connection, NULL, request, answers};
