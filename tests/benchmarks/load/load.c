/* A load generator that is not the bottleneck: keeps `depth` requests in flight on each of `clients` connections and
 * prints one line of JSON. The protocols are in files of their own. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RECEIVE_BYTES = 256 << 10, EVENTS_MAX = 256, LATENCIES_MAX = 1 << 22, ANSWER_SECONDS_MAX = 300 };

static const struct protocol *const protocols[] = {&sos_append, &sos_get,      &file_put, &file_put_shared, &redis_xadd,
                                                   &nats_publish, &etcd_put, &http_range, &connector_send, NULL};
static float *latencies;
static size_t latency_count;

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void reserve(struct bytes *in, size_t length) {
    if (in->length + length <= in->capacity) return;
    in->capacity = (in->length + length) * 2;
    in->data = realloc(in->data, in->capacity);
    if (!in->data) fail("out of memory");
}
void put(struct bytes *to, const void *data, size_t length) {
    reserve(to, length);
    memcpy(to->data + to->length, data, length);
    to->length += length;
}
void put_u8(struct bytes *to, unsigned value) { put(to, &(uint8_t){(uint8_t)value}, 1); }
void put_u16(struct bytes *to, unsigned value) { put_u8(to, value >> 8), put_u8(to, value & 255); }
void put_u32(struct bytes *to, uint32_t value) { put_u16(to, value >> 16), put_u16(to, value & 65535); }
void put_u64(struct bytes *to, uint64_t value) { put_u32(to, (uint32_t)(value >> 32)), put_u32(to, (uint32_t)value); }
void put_text(struct bytes *to, const char *format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(to, text, (size_t)length);
}
uint32_t get_u32(const uint8_t *from) {
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}
uint64_t get_u64(const uint8_t *from) { return (uint64_t)get_u32(from) << 32 | get_u32(from + 4); }

uint32_t crc32c(const void *data, size_t length) {
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0x82f63b78 : 0);
            table[i] = value;
        }
    uint32_t crc = 0xffffffff;
    for (const uint8_t *byte = data; length--; byte++) crc = crc >> 8 ^ table[(crc ^ *byte) & 255];
    return ~crc;
}

size_t available(const struct connection *c) { return c->in.length - c->in_start; }
const uint8_t *peek(const struct connection *c) { return c->in.data + c->in_start; }
void consume(struct connection *c, size_t length) {
    c->in_start += length;
    if (c->in_start == c->in.length) c->in_start = c->in.length = 0;
}

static void compact(struct bytes *buffer, size_t *start) {
    if (*start > (1 << 20) || *start == buffer->length) {
        memmove(buffer->data, buffer->data + *start, buffer->length - *start);
        buffer->length -= *start;
        *start = 0;
    }
}

static void dial(struct connection *c, const struct settings *settings) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET}, *address;
    if (getaddrinfo(settings->host, settings->port, &hints, &address)) fail("no such address: %s", settings->host);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, address->ai_addr, address->ai_addrlen)) fail("connect: %s", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    freeaddrinfo(address);
    if (getrandom(c->identity, sizeof c->identity, 0) < 0) fail("getrandom: %s", strerror(errno));
}

static void flush(struct connection *c) {
    while (c->out_start < c->out.length) {
        ssize_t sent = send(c->fd, c->out.data + c->out_start, c->out.length - c->out_start, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) fail("connection %d: send: %s", c->number, strerror(errno));
        c->out_start += (size_t)sent;
    }
    if (c->out.length) compact(&c->out, &c->out_start);
}

static int receive(struct connection *c) {
    reserve(&c->in, RECEIVE_BYTES);
    ssize_t got = recv(c->fd, c->in.data + c->in.length, RECEIVE_BYTES, 0);
    if (got == 0) fail("connection %d was closed by the server", c->number);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got < 0) fail("connection %d: recv: %s", c->number, strerror(errno));
    c->in.length += (size_t)got;
    return 1;
}

static void take_answers(struct connection *c, const struct protocol *protocol, const struct settings *s, int counted) {
    int answered = protocol->answers(c, s);
    double time = now();
    for (; answered > 0; answered--, c->answered++)
        if (counted && latency_count < LATENCIES_MAX)
            latencies[latency_count++] = (float)(time - c->started[c->answered % (uint64_t)s->depth]);
    if (c->in.length) compact(&c->in, &c->in_start);
}

static void fill(struct connection *c, const struct protocol *protocol, const struct settings *s) {
    while (c->ready && c->sent - c->answered < (uint64_t)s->depth && (!protocol->may_send || protocol->may_send(c, s))) {
        c->started[c->sent % (uint64_t)s->depth] = now();
        protocol->request(c, s);
        c->sent++;
    }
    flush(c);
}

/* Serves whatever is ready until `until`; counts latencies when asked, then until there is one at least. */
static void serve(int epoll, const struct protocol *protocol, const struct settings *s, double until, int counted) {
    struct epoll_event events[EVENTS_MAX];
    double last = now(), limit = until + ANSWER_SECONDS_MAX;
    while ((now() < until || (counted && !latency_count && now() < limit)) &&
           !(s->operations && latency_count >= s->operations)) {
        int count = epoll_wait(epoll, events, EVENTS_MAX, 100);
        if (count > 0) last = now();
        if (now() - last > ANSWER_SECONDS_MAX) fail("no answer for %d seconds", ANSWER_SECONDS_MAX);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            while (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && receive(c)) take_answers(c, protocol, s, counted);
            fill(c, protocol, s);
        }
    }
}

static int ascending(const void *left, const void *right) {
    float a = *(const float *)left, b = *(const float *)right;
    return (a > b) - (a < b);
}

static const struct protocol *find(const char *name) {
    for (const struct protocol *const *protocol = protocols; *protocol; protocol++)
        if (!strcmp((*protocol)->name, name)) return *protocol;
    fail("no protocol %s", name);
}

static struct settings parse(int count, char **words) {
    struct settings s = {.host = "127.0.0.1", .port = "0", .target = "bench", .payload_bytes = 4096, .clients = 1,
                         .depth = 1, .objects = 1, .seconds = 2, .warm_up_seconds = 0.3};
    for (int i = 2; i + 1 < count; i += 2) {
        const char *name = words[i], *value = words[i + 1];
        if (!strcmp(name, "--host")) s.host = value;
        else if (!strcmp(name, "--port")) s.port = value;
        else if (!strcmp(name, "--target")) s.target = value;
        else if (!strcmp(name, "--bytes")) s.payload_bytes = strtoul(value, NULL, 10);
        else if (!strcmp(name, "--operations")) s.operations = strtoul(value, NULL, 10);
        else if (!strcmp(name, "--clients")) s.clients = atoi(value);
        else if (!strcmp(name, "--depth")) s.depth = atoi(value);
        else if (!strcmp(name, "--objects")) s.objects = atoi(value);
        else if (!strcmp(name, "--one-directory")) s.one_directory = atoi(value);
        else if (!strcmp(name, "--seconds")) s.seconds = atof(value);
        else if (!strcmp(name, "--warm-up")) s.warm_up_seconds = atof(value);
        else if (!strcmp(name, "--token")) s.token_hex = value;
        else fail("no option %s", name);
    }
    return s;
}

int main(int count, char **words) {
    if (count < 2) fail("usage: load PROTOCOL --port PORT [--clients N] [--depth N] [--bytes N] [--seconds S]");
    const struct protocol *protocol = find(words[1]);
    struct settings s = parse(count, words);
    uint8_t *payload = malloc(s.payload_bytes + 1);
    latencies = malloc(sizeof(float) * LATENCIES_MAX);
    for (size_t i = 0; i < s.payload_bytes; i++) payload[i] = (uint8_t)(' ' + (i * 2654435761u >> 13) % 90);
    s.payload = payload, s.payload_crc = crc32c(payload, s.payload_bytes);

    int epoll = epoll_create1(0);
    struct connection *connections = calloc((size_t)s.clients, sizeof *connections);
    for (int i = 0; i < s.clients; i++) {
        struct connection *c = &connections[i];
        c->number = i, c->started = calloc((size_t)s.depth, sizeof(double));
        dial(c, &s);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event)) fail("epoll: %s", strerror(errno));
        protocol->open(c, &s);
        flush(c);
    }
    double start = now();
    serve(epoll, protocol, &s, start + s.warm_up_seconds, 0);
    for (int i = 0; i < s.clients; i++)
        for (double limit = now() + ANSWER_SECONDS_MAX; !connections[i].ready;)
            if (now() > limit) fail("connection %d was not accepted", i);
            else serve(epoll, protocol, &s, now() + 0.05, 0);
    start = now();
    serve(epoll, protocol, &s, start + s.seconds, 1);
    double elapsed = now() - start;
    if (!latency_count) fail("nothing was answered in %.1f seconds", elapsed);
    qsort(latencies, latency_count, sizeof *latencies, ascending);
    printf("{\"operations\": %zu, \"seconds\": %.6f, \"per_second\": %.3f, \"p50_seconds\": %.7f, \"p99_seconds\": %.7f}\n",
           latency_count, elapsed, (double)latency_count / elapsed, (double)latencies[latency_count / 2],
           (double)latencies[latency_count * 99 / 100]);
    return 0;
}
