/* etcd: KV.Put over gRPC, with just as much HTTP/2 as that needs (RFC 9113). */
#include "load.h"

#include <stdlib.h>
#include <string.h>

enum { DATA = 0, HEADERS = 1, RESET = 3, SETTINGS = 4, PING = 6, GO_AWAY = 7, WINDOW_UPDATE = 8 };
enum { END_STREAM = 1, ACKNOWLEDGED = 1, END_HEADERS = 4, FRAME_HEADER_BYTES = 9, WINDOW_BYTES = 65535 };

static void frame(struct bytes *out, size_t length, unsigned type, unsigned flags, uint32_t stream) {
    put_u8(out, (unsigned)(length >> 16) & 255), put_u16(out, length & 65535), put_u8(out, type), put_u8(out, flags);
    put_u32(out, stream);
}
static void open_connection(struct connection *c, const struct settings *s) {
    (void)s;
    put_text(&c->out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    frame(&c->out, 0, SETTINGS, 0, 0);
    frame(&c->out, 4, WINDOW_UPDATE, 0, 0), put_u32(&c->out, 1u << 30);
    c->window = WINDOW_BYTES, c->ready = 1, c->offset = 1;
}
static size_t varint(uint8_t *to, uint64_t value) {
    size_t length = 0;
    for (; value > 127; value >>= 7) to[length++] = (uint8_t)(value | 128);
    to[length++] = (uint8_t)value;
    return length;
}
static int may_send(const struct connection *c, const struct settings *s) {
    return c->window >= (int64_t)s->payload_bytes + 64;
}
static void literal(struct bytes *out, const char *name, const char *value) { /* HPACK, not indexed, no Huffman */
    put_u8(out, 0), put_u8(out, (unsigned)strlen(name)), put(out, name, strlen(name));
    put_u8(out, (unsigned)strlen(value)), put(out, value, strlen(value));
}
static void request(struct connection *c, const struct settings *s) {
    struct bytes headers = {0};
    uint32_t stream = (uint32_t)c->offset;
    put_u8(&headers, 0x83), put_u8(&headers, 0x86);
    literal(&headers, ":path", "/etcdserverpb.KV/Put"), literal(&headers, ":authority", "bench");
    literal(&headers, "content-type", "application/grpc"), literal(&headers, "te", "trailers");
    frame(&c->out, headers.length, HEADERS, END_HEADERS, stream), put(&c->out, headers.data, headers.length);
    free(headers.data);

    char key[64];
    uint8_t lengths[2][10];
    struct bytes text = {(uint8_t *)key, 0, sizeof key};
    put_text(&text, "%s-%d-%d", s->target, c->number, (int)(c->sent % 100));
    size_t key_varint = varint(lengths[0], text.length), value_varint = varint(lengths[1], s->payload_bytes);
    size_t message = 1 + key_varint + text.length + 1 + value_varint + s->payload_bytes;
    frame(&c->out, 5 + message, DATA, END_STREAM, stream);
    put_u8(&c->out, 0), put_u32(&c->out, (uint32_t)message);
    put_u8(&c->out, 0x0a), put(&c->out, lengths[0], key_varint), put(&c->out, key, text.length);
    put_u8(&c->out, 0x12), put(&c->out, lengths[1], value_varint), put(&c->out, s->payload, s->payload_bytes);
    c->window -= (int64_t)(5 + message);
    c->offset += 2;
}
static int answers(struct connection *c, const struct settings *s) {
    int answered = 0;
    (void)s;
    while (available(c) >= FRAME_HEADER_BYTES) {
        const uint8_t *start = peek(c);
        size_t length = (size_t)start[0] << 16 | (size_t)start[1] << 8 | start[2];
        unsigned type = start[3], flags = start[4];
        if (available(c) < FRAME_HEADER_BYTES + length) break;
        const uint8_t *body = start + FRAME_HEADER_BYTES;
        if (type == SETTINGS && !(flags & ACKNOWLEDGED)) frame(&c->out, 0, SETTINGS, ACKNOWLEDGED, 0);
        if (type == PING && !(flags & ACKNOWLEDGED)) frame(&c->out, 8, PING, ACKNOWLEDGED, 0), put(&c->out, body, 8);
        if (type == WINDOW_UPDATE && get_u32(start + 5) == 0) c->window += get_u32(body);
        if (type == DATA) c->stage++; /* a refusal has no message, only trailers */
        if (type == RESET || type == GO_AWAY) fail("the stream was reset");
        if (type == HEADERS && flags & END_STREAM) {
            if (!c->stage) fail("refused (an answer without a message)");
            c->stage--, answered++;
        }
        consume(c, FRAME_HEADER_BYTES + length);
    }
    return answered;
}
const struct protocol etcd_put = {"etcd-put", open_connection, may_send, request, answers};
