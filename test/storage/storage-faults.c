/*
 * Makes calls of a process to its files fail on purpose, as a disk would. Loaded by LD_PRELOAD; the orders are in a small file that the test maps or writes
 * (TOLLGATE_TEST_FAULTS), so that they change while the process runs. See storage-faults.ts, which writes the same fields.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITES = 1, SYNCS = 2, TRUNCATES = 4 };

/* error 0: a short write. loses: a failed sync forgets what was written since the last one, as the kernel's page cache does. */
struct orders {
  volatile uint32_t calls, error, skip, times, loses, fired;
  char path[104];
};

static struct orders *orders;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* The old content of the parts of a file that were written since its last sync, the newest first. */
struct before {
  struct before *next;
  dev_t device;
  ino_t inode;
  off_t at;
  size_t length;
  char bytes[];
};
static struct before *befores;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void map_orders(void) {
  const char *path = getenv("TOLLGATE_TEST_FAULTS");
  int fd = path == NULL ? -1 : REAL(open)(path, O_RDWR);
  if (fd < 0) return;
  void *at = mmap(NULL, sizeof *orders, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) orders = at;
  close(fd);
}

/* Whether a path ends with the one that is ordered. */
static int concerns_path(const char *path) {
  size_t length = strlen(path), end = strlen(orders->path);
  return length >= end && strcmp(path + length - end, orders->path) == 0;
}

static int concerns(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0 || path[0] != '/') return 0;
  path[length] = 0;
  int stored = strstr(path, ".sqlite") != NULL || strstr(path, ".db") != NULL || strstr(path, "/data/files/") != NULL;
  return stored ? concerns_path(path) : 0;
}

/* Uses up one of the ordered failures. Returns whether this call fails. */
static int takes(void) {
  pthread_mutex_lock(&mutex);
  int fails = 0;
  if (orders->skip > 0) orders->skip--;
  else if (orders->times > 0) {
    orders->times--;
    orders->fired++;
    fails = 1;
  }
  pthread_mutex_unlock(&mutex);
  return fails;
}

static int fails(uint32_t call, int fd) {
  return orders != NULL && (orders->calls & call) && orders->times > 0 && concerns(fd) && takes();
}

static void remember(int fd, off_t at, size_t length) {
  struct stat stat;
  if (orders == NULL || !orders->loses || at < 0 || !concerns(fd) || fstat(fd, &stat) != 0) return;
  struct before *before = malloc(sizeof *before + length);
  if (before == NULL) return;
  ssize_t had = REAL(pread)(fd, before->bytes, length, at);
  before->device = stat.st_dev;
  before->inode = stat.st_ino;
  before->at = at;
  /* What was never there is a hole afterwards. */
  memset(before->bytes + (had < 0 ? 0 : had), 0, length - (had < 0 ? 0 : (size_t)had));
  before->length = length;
  pthread_mutex_lock(&mutex);
  before->next = befores;
  befores = before;
  pthread_mutex_unlock(&mutex);
}

/* Drops the remembered bytes of a file, or writes them back. */
static void settle(int fd, int put_back) {
  struct stat stat;
  if (orders == NULL || befores == NULL || fstat(fd, &stat) != 0) return;
  pthread_mutex_lock(&mutex);
  for (struct before **place = &befores; *place != NULL;) {
    struct before *before = *place;
    if (before->device != stat.st_dev || before->inode != stat.st_ino) {
      place = &before->next;
      continue;
    }
    if (put_back) (void)!REAL(pwrite)(fd, before->bytes, before->length, before->at);
    *place = before->next;
    free(before);
  }
  pthread_mutex_unlock(&mutex);
}

static ssize_t refuse(void) {
  errno = (int)orders->error;
  return -1;
}

ssize_t write(int fd, const void *bytes, size_t length) {
  if (!fails(WRITES, fd)) {
    if (orders != NULL && orders->loses) remember(fd, lseek(fd, 0, SEEK_CUR), length);
    return REAL(write)(fd, bytes, length);
  }
  return orders->error != 0 ? refuse() : REAL(write)(fd, bytes, length / 2);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
  if (fails(WRITES, fd)) return orders->error != 0 ? refuse() : REAL(pwrite)(fd, bytes, length / 2, at);
  remember(fd, at, length);
  return REAL(pwrite)(fd, bytes, length, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) { return pwrite(fd, bytes, length, at); }

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  return fails(WRITES, fd) ? refuse() : REAL(pwritev)(fd, parts, count, at);
}

/* Descriptors to which a file's lost writes were reported. Linux reports them once to each. */
struct informed {
  struct informed *next;
  dev_t device;
  ino_t inode;
  int fd;
};
static struct informed *informed;

/* Whether writes of the file were lost and this descriptor does not know it yet; from now on it does. `loss`: they are lost now. */
static int learns_of_loss(int fd, int loss) {
  struct stat stat;
  if ((informed == NULL && !loss) || fstat(fd, &stat) != 0) return 0;
  pthread_mutex_lock(&mutex);
  int is_lost = loss, knows = 0;
  for (struct informed *each = informed; each != NULL; each = each->next) {
    if (each->device != stat.st_dev || each->inode != stat.st_ino) continue;
    is_lost = 1;
    if (each->fd == fd) knows = 1;
  }
  int learns = is_lost && !knows;
  struct informed *each = learns ? malloc(sizeof *each) : NULL;
  if (each != NULL) {
    *each = (struct informed){informed, stat.st_dev, stat.st_ino, fd};
    informed = each;
  }
  pthread_mutex_unlock(&mutex);
  return learns;
}

static int synced(int fd, int (*sync)(int)) {
  if (fails(SYNCS, fd)) {
    if (orders->loses) {
      learns_of_loss(fd, 1);
      settle(fd, 1);
    }
    return (int)refuse();
  }
  if (learns_of_loss(fd, 0)) {
    errno = EIO;
    return -1;
  }
  int result = sync(fd);
  if (result == 0) settle(fd, 0);
  return result;
}

int fsync(int fd) { return synced(fd, REAL(fsync)); }

int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

int ftruncate(int fd, off_t length) {
  return fails(TRUNCATES, fd) ? (int)refuse() : REAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }
