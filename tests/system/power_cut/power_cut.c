/*
 * Under a process (LD_PRELOAD), notes how to undo every change below a directory that was not synced yet, so that
 * after a kill -9 `power_cut.py` can take away what a power cut would have taken. kill -9 alone shows no missing fsync:
 * the page cache survives it.
 *
 * POWER_CUT_ROOT is the directory, POWER_CUT_NOTES a directory beside it (same file system, outside of it). Each change is
 * noted in NOTES/undo before it is made; every file that is opened for writing is linked as NOTES/INODE, so that its
 * bytes can be reached whatever its names become. A sync is noted when it has returned, with the length that the notes
 * had when it began: what was noted later is not covered by it.
 *
 * Calls that are not here (mmap for writing, sendfile, O_TRUNC) must not be used below the directory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind {
    WROTE = 1, RESIZED, SYNCED, CREATED, UNLINKED, RENAMED, MADE_DIRECTORY, REMOVED_DIRECTORY, DIRECTORY_SYNCED,
    ALL_SYNCED
};

/* The layout that power_cut.py reads: little-endian, then both paths, then the old bytes. */
struct __attribute__((packed)) note {
    uint32_t bytes;
    uint8_t kind;
    uint64_t inode;
    uint64_t offset;
    uint64_t length;
    uint64_t old_size;
    uint32_t path_bytes;
    uint32_t other_path_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char root[PATH_MAX], notes[PATH_MAX - 64];
static size_t root_bytes;
static int undo = -1;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static void fail(const char *what) {
    dprintf(2, "power_cut: %s: %s\n", what, strerror(errno));
    abort();
}

static void begin(void) {
    const char *from = getenv("POWER_CUT_ROOT"), *to = getenv("POWER_CUT_NOTES");
    char path[PATH_MAX];
    if (!from || !to) return;
    snprintf(root, sizeof root, "%s/", from);
    snprintf(notes, sizeof notes, "%s", to);
    root_bytes = strlen(root);
    snprintf(path, sizeof path, "%s/undo", to);
    undo = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (undo < 0) fail("cannot open the notes");
}

static int below_root(const char *path) {
    pthread_once(&once, begin);
    return undo >= 0 && strncmp(path, root, root_bytes) == 0;
}

/* The path of what an open descriptor is of; 0 when that is not below the root. */
static int path_of_descriptor(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 2);
    if (length < 0) return 0;
    path[length] = 0;
    pthread_once(&once, begin);
    if (undo < 0) return 0;
    return below_root(path) || (strncmp(path, root, root_bytes - 1) == 0 && (size_t)length == root_bytes - 1);
}

/* The absolute path of a name relative to a directory; 0 when it is not below the root. */
static int resolve(int dirfd, const char *name, char *path) {
    char directory[PATH_MAX];
    pthread_once(&once, begin);
    if (undo < 0 || !name) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else if (dirfd == AT_FDCWD) {
        if (!getcwd(directory, sizeof directory)) return 0;
        if (snprintf(path, PATH_MAX, "%s/%s", directory, name) >= PATH_MAX) fail("a path is too long");
    } else {
        if (!path_of_descriptor(dirfd, directory)) return 0;
        if (snprintf(path, PATH_MAX, "%s/%s", directory, name) >= PATH_MAX) fail("a path is too long");
    }
    return below_root(path);
}

static void write_note(struct note note, const char *path, const char *other, const void *old, size_t old_bytes) {
    note.path_bytes = path ? strlen(path) : 0;
    note.other_path_bytes = other ? strlen(other) : 0;
    note.bytes = sizeof note + note.path_bytes + note.other_path_bytes + old_bytes;
    struct iovec parts[] = {{&note, sizeof note},
                            {(void *)path, note.path_bytes},
                            {(void *)other, note.other_path_bytes},
                            {(void *)old, old_bytes}};
    if (REAL(writev)(undo, parts, 4) != (ssize_t)note.bytes) fail("cannot write a note");
}

static void keep_inode(const char *path) {
    struct stat status;
    char kept[PATH_MAX + 32];
    if (lstat(path, &status) || !S_ISREG(status.st_mode)) return;
    snprintf(kept, sizeof kept, "%s/%llu", notes, (unsigned long long)status.st_ino);
    if (link(path, kept) && errno != EEXIST) fail("cannot link a file");
}

static uint64_t inode_of(const char *path) {
    struct stat status;
    return lstat(path, &status) ? 0 : status.st_ino;
}

static void note_change(int fd, enum kind kind, off_t offset, off_t length) {
    struct stat status;
    char own[64];
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) return;
    off_t end = offset + length;
    size_t old_bytes = status.st_size <= offset ? 0 : (size_t)((end < status.st_size ? end : status.st_size) - offset);
    char *old = malloc(old_bytes + 1);
    /* The descriptor may be for writing only. */
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    int reader = REAL(open)(own, O_RDONLY | O_CLOEXEC);
    if (!old || reader < 0 || pread(reader, old, old_bytes, offset) != (ssize_t)old_bytes) fail("cannot read old bytes");
    REAL(close)(reader);
    struct note note = {.kind = kind, .inode = status.st_ino, .offset = offset, .length = length, .old_size = status.st_size};
    write_note(note, 0, 0, old, old_bytes);
    free(old);
}

static int is_watched_file(int fd) {
    struct stat status;
    char path[PATH_MAX];
    pthread_once(&once, begin);
    return undo >= 0 && !fstat(fd, &status) && S_ISREG(status.st_mode) && path_of_descriptor(fd, path);
}

/* Runs `call` with the change noted before it, nothing else happening in between. */
#define CHANGING(fd, kind, offset, length, call)         \
    do {                                                 \
        if (!is_watched_file(fd)) return call;           \
        pthread_mutex_lock(&lock);                       \
        note_change(fd, kind, offset, length);           \
        __auto_type result = call;                       \
        int error = errno;                               \
        pthread_mutex_unlock(&lock);                     \
        errno = error;                                   \
        return result;                                   \
    } while (0)

static off_t total(const struct iovec *parts, int count) {
    off_t sum = 0;
    for (int i = 0; i < count; i++) sum += parts[i].iov_len;
    return sum;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    CHANGING(fd, WROTE, offset, total(parts, count), REAL(pwritev)(fd, parts, count, offset));
}
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
    CHANGING(fd, WROTE, offset, total(parts, count), REAL(pwritev2)(fd, parts, count, offset, flags));
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    CHANGING(fd, WROTE, offset, total(parts, count), REAL(pwritev64)(fd, parts, count, offset));
}
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags) {
    CHANGING(fd, WROTE, offset, total(parts, count), REAL(pwritev64v2)(fd, parts, count, offset, flags));
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    CHANGING(fd, WROTE, offset, length, REAL(pwrite)(fd, data, length, offset));
}
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    CHANGING(fd, WROTE, offset, length, REAL(pwrite64)(fd, data, length, offset));
}
ssize_t write(int fd, const void *data, size_t length) {
    CHANGING(fd, WROTE, lseek(fd, 0, SEEK_CUR), length, REAL(write)(fd, data, length));
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    CHANGING(fd, WROTE, lseek(fd, 0, SEEK_CUR), total(parts, count), REAL(writev)(fd, parts, count));
}
int ftruncate(int fd, off_t size) { CHANGING(fd, RESIZED, size, SSIZE_MAX - size, REAL(ftruncate)(fd, size)); }
int ftruncate64(int fd, off64_t size) { CHANGING(fd, RESIZED, size, SSIZE_MAX - size, REAL(ftruncate64)(fd, size)); }
int fallocate(int fd, int mode, off_t offset, off_t length) {
    CHANGING(fd, WROTE, offset, length, REAL(fallocate)(fd, mode, offset, length));
}
int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
    CHANGING(fd, WROTE, offset, length, REAL(fallocate64)(fd, mode, offset, length));
}
int posix_fallocate(int fd, off_t offset, off_t length) {
    CHANGING(fd, WROTE, offset, length, REAL(posix_fallocate)(fd, offset, length));
}
int posix_fallocate64(int fd, off64_t offset, off64_t length) {
    CHANGING(fd, WROTE, offset, length, REAL(posix_fallocate64)(fd, offset, length));
}

static int syncing(int fd, int (*sync)(int), enum kind kind) {
    struct stat status;
    char path[PATH_MAX];
    if (!path_of_descriptor(fd, path) || fstat(fd, &status)) return sync(fd);
    pthread_mutex_lock(&lock);
    off_t covered = lseek(undo, 0, SEEK_END);
    pthread_mutex_unlock(&lock);
    int result = sync(fd), error = errno;
    if (result == 0) {
        struct note note = {.kind = kind ? kind : S_ISDIR(status.st_mode) ? DIRECTORY_SYNCED : SYNCED,
                            .inode = status.st_ino,
                            .offset = covered};
        pthread_mutex_lock(&lock);
        write_note(note, path, 0, 0, 0);
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return result;
}

int fsync(int fd) { return syncing(fd, REAL(fsync), 0); }
int fdatasync(int fd) { return syncing(fd, REAL(fdatasync), 0); }
int syncfs(int fd) { return syncing(fd, REAL(syncfs), ALL_SYNCED); }

static int opening(int dirfd, const char *name, int flags, mode_t mode, int (*open_at)(int, const char *, int, ...)) {
    char path[PATH_MAX];
    struct stat status;
    if ((flags & O_ACCMODE) == O_RDONLY || !resolve(dirfd, name, path)) return open_at(dirfd, name, flags, mode);
    if (flags & O_TRUNC) fail("O_TRUNC is not supported");
    pthread_mutex_lock(&lock);
    int is_new = (flags & O_CREAT) && lstat(path, &status);
    if (is_new) write_note((struct note){.kind = CREATED}, path, 0, 0, 0);
    int result = open_at(dirfd, name, flags, mode), error = errno;
    if (result >= 0) keep_inode(path);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

#define OPEN_MODE(flags)                                    \
    mode_t mode = 0;                                        \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                  \
        va_list rest;                                       \
        va_start(rest, flags);                              \
        mode = va_arg(rest, mode_t);                        \
        va_end(rest);                                       \
    }

int openat(int dirfd, const char *name, int flags, ...) {
    OPEN_MODE(flags)
    return opening(dirfd, name, flags, mode, REAL(openat));
}
int openat64(int dirfd, const char *name, int flags, ...) {
    OPEN_MODE(flags)
    return opening(dirfd, name, flags, mode, REAL(openat64));
}
int open(const char *name, int flags, ...) {
    OPEN_MODE(flags)
    return opening(AT_FDCWD, name, flags, mode, REAL(openat));
}
int open64(const char *name, int flags, ...) {
    OPEN_MODE(flags)
    return opening(AT_FDCWD, name, flags, mode, REAL(openat64));
}

int unlinkat(int dirfd, const char *name, int flags) {
    char path[PATH_MAX];
    if (!resolve(dirfd, name, path)) return REAL(unlinkat)(dirfd, name, flags);
    pthread_mutex_lock(&lock);
    keep_inode(path);
    struct note note = {.kind = flags & AT_REMOVEDIR ? REMOVED_DIRECTORY : UNLINKED, .inode = inode_of(path)};
    if (note.inode) write_note(note, path, 0, 0, 0);
    int result = REAL(unlinkat)(dirfd, name, flags), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int renameat(int old_dirfd, const char *old, int new_dirfd, const char *new) {
    char from[PATH_MAX], to[PATH_MAX];
    if (!resolve(old_dirfd, old, from) || !resolve(new_dirfd, new, to))
        return REAL(renameat)(old_dirfd, old, new_dirfd, new);
    pthread_mutex_lock(&lock);
    keep_inode(to);
    if (inode_of(from)) write_note((struct note){.kind = RENAMED, .inode = inode_of(to)}, from, to, 0, 0);
    int result = REAL(renameat)(old_dirfd, old, new_dirfd, new), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int mkdirat(int dirfd, const char *name, mode_t mode) {
    char path[PATH_MAX];
    if (!resolve(dirfd, name, path) || inode_of(path)) return REAL(mkdirat)(dirfd, name, mode);
    pthread_mutex_lock(&lock);
    write_note((struct note){.kind = MADE_DIRECTORY}, path, 0, 0, 0);
    int result = REAL(mkdirat)(dirfd, name, mode), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }
