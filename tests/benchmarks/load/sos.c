/* The SOS protocol (append, get) and the file protocol (put). See PROTOCOL.md of each. */
#include "load.h"

#include <stdio.h>
#include <string.h>

static size_t begin(struct bytes *out, unsigned type) {
    size_t start = out->length;
    put_u32(out, 0), put_u8(out, type);
    return start;
}
static void end(struct bytes *out, size_t start) {
    uint32_t length = (uint32_t)(out->length - start - 4);
    for (int i = 0; i < 4; i++) out->data[start + (size_t)i] = (uint8_t)(length >> (24 - 8 * i));
}
static void pack_text(struct bytes *out, const char *text) {
    put_u8(out, 0xd9), put_u8(out, (unsigned)strlen(text)), put(out, text, strlen(text));
}
static void pack_identity(struct bytes *out, const uint8_t *identity) {
    put_u8(out, 0xc4), put_u8(out, 16), put(out, identity, 16);
}
static void pack_u64(struct bytes *out, uint64_t value) { put_u8(out, 0xcf), put_u64(out, value); }
static void pack_u32(struct bytes *out, uint32_t value) { put_u8(out, 0xce), put_u32(out, value); }

static int hex_digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

static void hello(struct connection *c, const struct settings *s, unsigned type, unsigned version) {
    uint8_t token[32] = {0};
    if (s->token_hex)
        for (int i = 0; i < 32; i++) token[i] = (uint8_t)(hex_digit(s->token_hex[2 * i]) << 4 | hex_digit(s->token_hex[2 * i + 1]));
    size_t start = begin(&c->out, type);
    put_u16(&c->out, version), put_u8(&c->out, s->token_hex != NULL), put(&c->out, token, sizeof token);
    put_u8(&c->out, 0x92), pack_text(&c->out, "load"), pack_identity(&c->out, c->identity);
    end(&c->out, start);
}

/* The type of the next whole frame, 0 if there is none; its body and length through the pointers. */
static unsigned next_frame(struct connection *c, const uint8_t **body, size_t *length) {
    if (available(c) < 5) return 0;
    uint32_t counted = get_u32(peek(c));
    if (available(c) < 4 + (size_t)counted) return 0;
    *body = peek(c) + 5, *length = counted - 1;
    return peek(c)[4];
}

static _Noreturn void refused(const uint8_t *body, size_t length) {
    char text[400];
    size_t kept = 0;
    for (size_t i = 0; i < length && kept + 1 < sizeof text; i++)
        if (body[i] >= ' ' && body[i] < 127) text[kept++] = (char)body[i];
    text[kept] = 0;
    fail("refused: %s", text);
}

static void use(struct connection *c, const struct settings *s, int create) {
    hello(c, s, 0x01, 1);
    size_t start = begin(&c->out, 0x02);
    put_u8(&c->out, 0x92), pack_text(&c->out, s->target), put_u8(&c->out, create ? 0xc3 : 0xc2);
    end(&c->out, start);
}

static void object_name(char *name, const struct connection *c) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) name[2 * i] = digits[c->identity[i] >> 4], name[2 * i + 1] = digits[c->identity[i] & 15];
    name[32] = 0;
}

static void append_open(struct connection *c, const struct settings *s) {
    char name[33];
    object_name(name, c);
    use(c, s, 1);
    size_t start = begin(&c->out, 0x04);
    put_u8(&c->out, 0x95), pack_text(&c->out, name), put_u8(&c->out, 0), put_u8(&c->out, 0xc0), put_u8(&c->out, 0);
    put_u8(&c->out, 0xc4), put_u8(&c->out, 0);
    end(&c->out, start);
}
static void append_request(struct connection *c, const struct settings *s) {
    size_t start = begin(&c->out, 0x40);
    put_u64(&c->out, c->offset), put_u32(&c->out, s->payload_crc), put(&c->out, s->payload, s->payload_bytes);
    end(&c->out, start);
    c->offset += s->payload_bytes;
}
static int append_answers(struct connection *c, const struct settings *s) {
    const uint8_t *body;
    size_t length;
    int answered = 0;
    for (unsigned type; (type = next_frame(c, &body, &length)); consume(c, 5 + length)) {
        if (type == 0xff) refused(body, length);
        if (type == 0x84) c->ready = 1;
        if (type != 0x88) continue;
        uint64_t synced = get_u64(body + 8) / s->payload_bytes;
        answered += (int)(synced - c->stage);
        c->stage = synced;
    }
    return answered;
}
const struct protocol sos_append = {"sos-append", append_open, NULL, append_request, append_answers};

/* target: NAMESPACE/OBJECT; reads pieces of payload_bytes one after the other, from the start again after `objects`. */
static void get_open(struct connection *c, const struct settings *s) {
    char namespace[256];
    strncpy(namespace, s->target, sizeof namespace - 1);
    namespace[sizeof namespace - 1] = 0;
    char *slash = strchr(namespace, '/');
    if (!slash) fail("--target must be NAMESPACE/OBJECT");
    *slash = 0;
    struct settings inner = *s;
    inner.target = namespace;
    use(c, &inner, 0);
}
static void get_request(struct connection *c, const struct settings *s) {
    size_t start = begin(&c->out, 0x07);
    put_u8(&c->out, 0x94), pack_text(&c->out, strchr(s->target, '/') + 1);
    pack_u64(&c->out, c->sent % (uint64_t)s->objects * s->payload_bytes), pack_u64(&c->out, s->payload_bytes);
    put_u8(&c->out, 0xc2);
    end(&c->out, start);
}
static int get_answers(struct connection *c, const struct settings *s) {
    const uint8_t *body;
    size_t length;
    int answered = 0;
    for (unsigned type; (type = next_frame(c, &body, &length)); consume(c, 5 + length)) {
        if (type == 0xff) refused(body, length);
        if (type == 0x82) c->ready = 1;
        if (type == 0x40) c->stage += length - 12;
        if (type != 0x87) continue;
        if (c->stage != s->payload_bytes) fail("an answer of %lu bytes", (unsigned long)c->stage);
        c->stage = 0, answered++;
    }
    return answered;
}
const struct protocol sos_get = {"sos-get", get_open, NULL, get_request, get_answers};

/* target: the volume. Each connection writes `objects` files of its own (a hundred if not told), in turn; with
 * --one-directory 1 beside everybody else's. */
static void put_begin(struct connection *c, const struct settings *s, unsigned version) {
    hello(c, s, 0x21, version);
    size_t start = begin(&c->out, 0x22);
    if (version > 1) put_u32(&c->out, 1);
    put_u8(&c->out, 0x92), pack_text(&c->out, s->target), put_u8(&c->out, 0);
    end(&c->out, start);
}
static void put_send(struct connection *c, const struct settings *s, int tagged) {
    char owner[33], path[64];
    object_name(owner, c);
    unsigned files = s->objects > 1 ? (unsigned)s->objects : 100, number = (unsigned)(c->sent % files);
    if (s->one_directory) snprintf(path, sizeof path, "all/%s-%u", owner, number);
    else snprintf(path, sizeof path, "bench/%s/%u/%u", owner, number / 1000, number);
    size_t start = begin(&c->out, 0x23);
    if (tagged) put_u32(&c->out, (uint32_t)(c->sent + 2));
    size_t meta_start = c->out.length;
    put_u32(&c->out, 0);
    put_u8(&c->out, 0x95), pack_text(&c->out, path), put_u8(&c->out, 0xc3), pack_u32(&c->out, s->payload_crc);
    put_u8(&c->out, 0x94), pack_identity(&c->out, c->identity), pack_u64(&c->out, c->sent + 1), put_u8(&c->out, 0xc0);
    pack_u64(&c->out, c->offset), put_u8(&c->out, 0xc0);
    end(&c->out, meta_start);
    put(&c->out, s->payload, s->payload_bytes);
    end(&c->out, start);
}
static int put_answers(struct connection *c, const struct settings *s) {
    const uint8_t *body;
    size_t length;
    int answered = 0;
    (void)s;
    for (unsigned type; (type = next_frame(c, &body, &length)); consume(c, 5 + length)) {
        if (type == 0xaa) refused(body, length);
        if (type == 0xa2) c->ready = 1;
        if (type == 0xa3) answered++;
    }
    return answered;
}
static void put_open(struct connection *c, const struct settings *s) { put_begin(c, s, 1); }
static void put_request(struct connection *c, const struct settings *s) { put_send(c, s, 0); }
const struct protocol file_put = {"file-put", put_open, NULL, put_request, put_answers};

/* The same in version 2: as many in flight on each connection as `depth` says, as the tasks of one JVM have them. */
static void shared_open(struct connection *c, const struct settings *s) { put_begin(c, s, 2); }
static void shared_request(struct connection *c, const struct settings *s) { put_send(c, s, 1); }
const struct protocol file_put_shared = {"file-put-shared", shared_open, NULL, shared_request, put_answers};
