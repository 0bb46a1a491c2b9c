// The disk under a server: records what it does to the files below one directory, and makes calls fail.
//
// Preloaded into a program, it makes the kernel hand it (SIGSYS, by a seccomp filter) every call that
// changes or reads a file, wherever the call comes from: the C library, or instructions compiled into the
// program. It performs the call itself, under a lock, and appends what was done to the trace. So the trace
// is complete, and in chronological order.
//
// LAZULI_DISK_ROOT     the directory, absolute and without symbolic links
// LAZULI_DISK_TRACE    the trace; records are appended, see trace.rs for their form
// LAZULI_DISK_CONTROL  a file of the size of `struct control`, shared with the process that injects faults
//
// Syncs are recorded and not performed: the crash model decides what they guarantee.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PATH_BYTES 4096

// ---- calls that the filter lets pass, known by where they come from ----

long disk_call(long number, long a, long b, long c, long d, long e, long f);
extern const char disk_call_end[];

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
__asm__(
    ".text\n.globl disk_call\n.hidden disk_call\n.type disk_call,@function\ndisk_call:\n"
    "mov %rdi,%rax\nmov %rsi,%rdi\nmov %rdx,%rsi\nmov %rcx,%rdx\nmov %r8,%r10\nmov %r9,%r8\n"
    "mov 8(%rsp),%r9\nsyscall\n.globl disk_call_end\n.hidden disk_call_end\ndisk_call_end:\nret\n");
#define RESULT(context) (context)->uc_mcontext.gregs[REG_RAX]
static void arguments(const ucontext_t *context, long out[6]) {
  const greg_t *r = context->uc_mcontext.gregs;
  out[0] = r[REG_RDI], out[1] = r[REG_RSI], out[2] = r[REG_RDX];
  out[3] = r[REG_R10], out[4] = r[REG_R8], out[5] = r[REG_R9];
}
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
__asm__(
    ".text\n.globl disk_call\n.hidden disk_call\n.type disk_call,%function\ndisk_call:\n"
    "mov x8,x0\nmov x0,x1\nmov x1,x2\nmov x2,x3\nmov x3,x4\nmov x4,x5\nmov x5,x6\nsvc #0\n"
    ".globl disk_call_end\n.hidden disk_call_end\ndisk_call_end:\nret\n");
#define RESULT(context) (context)->uc_mcontext.regs[0]
static void arguments(const ucontext_t *context, long out[6]) {
  for (int i = 0; i < 6; i++) out[i] = context->uc_mcontext.regs[i];
}
#else
#error "the disk shim knows x86_64 and aarch64"
#endif

#define CALL(n, a, b, c, d) disk_call(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

// ---- faults ----

enum class { CLASS_WRITE = 1, CLASS_SYNC = 2, CLASS_NAME = 4, CLASS_READ = 8 };
enum action { ACT_ERROR = 1, ACT_SHORT = 2, ACT_DELAY = 3, ACT_KILL = 4 };

// Shared with shim.rs, which writes it field by field.
struct control {
  uint64_t classes; // of the calls that count
  uint64_t from;    // the first call that is hit, counted from zero
  uint64_t until;   // the first that is not hit any more
  uint64_t action;
  uint64_t value;   // errno, or milliseconds
  uint64_t calls;   // counted so far
  uint64_t hits;
};

static volatile struct control *control;

// Counts a call; returns the action that hits it, or zero.
static uint64_t fault(enum class class) {
  if (!control || !(control->classes & class)) return 0;
  uint64_t n = __atomic_fetch_add(&control->calls, 1, __ATOMIC_SEQ_CST);
  if (n < control->from || n >= control->until) return 0;
  __atomic_fetch_add(&control->hits, 1, __ATOMIC_SEQ_CST);
  if (control->action == ACT_KILL) CALL(__NR_kill, CALL(__NR_getpid, 0, 0, 0, 0), SIGKILL, 0, 0);
  if (control->action == ACT_DELAY) {
    struct timespec time = {control->value / 1000, control->value % 1000 * 1000000};
    CALL(__NR_nanosleep, &time, 0, 0, 0);
  }
  return control->action;
}

// ---- the trace ----

enum kind {
  KIND_CREATE = 1, KIND_MAKE_DIRECTORY = 2, KIND_WRITE = 3, KIND_SET_LENGTH = 4, KIND_RENAME = 5,
  KIND_REMOVE = 6, KIND_SYNC_BEGINS = 7, KIND_SYNC_ENDS = 8, KIND_SYNC_FAILS = 9, KIND_UNKNOWN = 10,
};

struct record {
  uint32_t kind, path_bytes, other_bytes, data_bytes;
  uint64_t inode, number;
};

static int trace = -1;
static char root[PATH_BYTES];
static size_t root_bytes;
static char lock_byte;

static void lock(void) {
  while (__atomic_test_and_set(&lock_byte, __ATOMIC_ACQUIRE)) CALL(__NR_sched_yield, 0, 0, 0, 0);
}

static void unlock(void) { __atomic_clear(&lock_byte, __ATOMIC_RELEASE); }

static void record(enum kind kind, uint64_t inode, uint64_t number, const char *path,
                   const char *other, const void *data, size_t data_bytes) {
  struct record head = {kind, path ? strlen(path) : 0, other ? strlen(other) : 0, data_bytes, inode, number};
  struct iovec parts[] = {{&head, sizeof head}, {(void *)path, head.path_bytes},
                          {(void *)other, head.other_bytes}, {(void *)data, data_bytes}};
  CALL(__NR_writev, trace, parts, 4, 0);
}

// ---- which files are ours ----

// The path below the root ("" for the root itself), or null if it lies elsewhere.
static const char *below(const char *path) {
  if (strncmp(path, root, root_bytes) != 0) return NULL;
  if (path[root_bytes] == '\0') return path + root_bytes;
  return path[root_bytes] == '/' ? path + root_bytes + 1 : NULL;
}

static const char *path_of(int fd, char *buffer) {
  char link[40] = "/proc/self/fd/", digits[12];
  int count = 0;
  do digits[count++] = '0' + fd % 10; while (fd /= 10);
  char *end = link + strlen(link);
  while (count) *end++ = digits[--count];
  *end = '\0';
  long bytes = CALL(__NR_readlinkat, AT_FDCWD, link, buffer, PATH_BYTES - 1);
  if (bytes < 0) return NULL;
  buffer[bytes] = '\0';
  return buffer;
}

// The absolute path of (directory, path). The program under test names its files by
// absolute paths, or by one name in an open directory.
static const char *resolve(int directory, const char *path, char *buffer) {
  if (path[0] == '/') return strlen(path) < PATH_BYTES ? strcpy(buffer, path) : NULL;
  if (directory == AT_FDCWD) {
    if (CALL(__NR_getcwd, buffer, PATH_BYTES, 0, 0) < 0) return NULL;
  } else if (!path_of(directory, buffer)) {
    return NULL;
  }
  size_t used = strlen(buffer);
  if (used + strlen(path) + 2 > PATH_BYTES) return NULL;
  buffer[used] = '/';
  strcpy(buffer + used + 1, path);
  return buffer;
}

static long status(int fd, struct stat *out) {
  return CALL(__NR_newfstatat, fd, "", out, AT_EMPTY_PATH);
}

// Whether `fd` is a file or directory below the root, even under a name that it has lost.
static int is_ours(int fd, struct stat *out) {
  char buffer[PATH_BYTES];
  if (fd < 0 || status(fd, out) < 0) return 0;
  if (!S_ISREG(out->st_mode) && !S_ISDIR(out->st_mode)) return 0;
  const char *path = path_of(fd, buffer);
  return path && below(path) != NULL;
}

static uint64_t inode_at(const char *path, mode_t *mode) {
  struct stat found;
  if (CALL(__NR_newfstatat, AT_FDCWD, path, &found, AT_SYMLINK_NOFOLLOW) < 0) return 0;
  if (mode) *mode = found.st_mode;
  return found.st_ino;
}

// ---- the calls ----

static long do_open(int directory, const char *name, int flags, long mode) {
  char buffer[PATH_BYTES];
  const char *path = resolve(directory, name, buffer);
  const char *inner = path ? below(path) : NULL;
  if (!inner || (flags & O_ACCMODE) == O_RDONLY)
    return CALL(__NR_openat, directory, name, flags, mode);
  lock();
  uint64_t before = inode_at(path, NULL);
  long result;
  if ((flags & O_CREAT) && !before && fault(CLASS_NAME) == ACT_ERROR)
    result = -(long)control->value;
  else
    result = CALL(__NR_openat, directory, name, flags, mode);
  if (result >= 0) {
    uint64_t after = inode_at(path, NULL);
    if (!before) record(KIND_CREATE, after, 0, inner, NULL, NULL, 0);
    else if (flags & O_TRUNC) record(KIND_SET_LENGTH, after, 0, NULL, NULL, NULL, 0);
  }
  unlock();
  return result;
}

// A write at `offset`, or at the file position if that is negative.
static long do_write(int fd, const struct iovec *parts, int count, int64_t offset) {
  struct stat file;
  if (!is_ours(fd, &file)) {
    return offset < 0 ? CALL(__NR_writev, fd, parts, count, 0)
                      : CALL(__NR_pwritev, fd, parts, count, offset);
  }
  struct iovec one[1];
  lock();
  uint64_t action = fault(CLASS_WRITE);
  long result;
  // A disk that is filling up takes what still fits, and returns that; the next call fails.
  if (action == ACT_ERROR && control->value == ENOSPC && control->hits == 1) action = ACT_SHORT;
  if (action == ACT_SHORT) {
    one[0] = parts[0];
    one[0].iov_len = (one[0].iov_len + 1) / 2;
    parts = one, count = 1;
  }
  if (action == ACT_ERROR) {
    result = -(long)control->value;
  } else {
    status(fd, &file);
    int64_t at = offset;
    if (at < 0) {
      int appends = CALL(__NR_fcntl, fd, F_GETFL, 0, 0) & O_APPEND;
      at = appends ? file.st_size : CALL(__NR_lseek, fd, 0, SEEK_CUR, 0);
    }
    result = offset < 0 ? CALL(__NR_writev, fd, parts, count, 0)
                        : CALL(__NR_pwritev, fd, parts, count, offset);
    for (long left = result; left > 0; parts++) {
      long bytes = left < (long)parts->iov_len ? left : (long)parts->iov_len;
      record(KIND_WRITE, file.st_ino, at, NULL, NULL, parts->iov_base, bytes);
      at += bytes, left -= bytes;
    }
  }
  unlock();
  return result;
}

static long do_set_length(int fd, int64_t length) {
  struct stat file;
  if (!is_ours(fd, &file)) return CALL(__NR_ftruncate, fd, length, 0, 0);
  lock();
  long result = fault(CLASS_NAME) == ACT_ERROR ? -(long)control->value
                                               : CALL(__NR_ftruncate, fd, length, 0, 0);
  if (result >= 0) record(KIND_SET_LENGTH, file.st_ino, length, NULL, NULL, NULL, 0);
  unlock();
  return result;
}

static long do_allocate(int fd, int mode, int64_t offset, int64_t bytes) {
  struct stat file;
  if (!is_ours(fd, &file)) return CALL(__NR_fallocate, fd, mode, offset, bytes);
  lock();
  long result = fault(CLASS_WRITE) == ACT_ERROR ? -(long)control->value
                                                : CALL(__NR_fallocate, fd, mode, offset, bytes);
  if (result >= 0 && mode == 0 && offset + bytes > file.st_size)
    record(KIND_SET_LENGTH, file.st_ino, offset + bytes, NULL, NULL, NULL, 0);
  else if (result >= 0 && (mode & ~FALLOC_FL_KEEP_SIZE))
    record(KIND_UNKNOWN, file.st_ino, 0, "fallocate", NULL, NULL, 0);
  unlock();
  return result;
}

static long do_sync(long number, int fd) {
  struct stat file;
  if (!is_ours(fd, &file)) return CALL(number, fd, 0, 0, 0);
  lock();
  long thread = CALL(__NR_gettid, 0, 0, 0, 0);
  record(KIND_SYNC_BEGINS, file.st_ino, thread, NULL, NULL, NULL, 0);
  unlock();
  long result = fault(CLASS_SYNC) == ACT_ERROR ? -(long)control->value : 0;
  lock();
  record(result < 0 ? KIND_SYNC_FAILS : KIND_SYNC_ENDS, file.st_ino, thread, NULL, NULL, NULL, 0);
  unlock();
  return result;
}

static long do_rename(int from_directory, const char *from, int to_directory, const char *to, long flags) {
  char from_buffer[PATH_BYTES], to_buffer[PATH_BYTES];
  const char *from_path = resolve(from_directory, from, from_buffer);
  const char *to_path = resolve(to_directory, to, to_buffer);
  const char *from_inner = from_path ? below(from_path) : NULL;
  const char *to_inner = to_path ? below(to_path) : NULL;
  if (!from_inner && !to_inner)
    return disk_call(__NR_renameat2, from_directory, (long)from, to_directory, (long)to, flags, 0);
  lock();
  long result = fault(CLASS_NAME) == ACT_ERROR
                    ? -(long)control->value
                    : disk_call(__NR_renameat2, from_directory, (long)from, to_directory, (long)to, flags, 0);
  if (result >= 0) {
    if (from_inner && to_inner && !(flags & 2)) record(KIND_RENAME, 0, 0, from_inner, to_inner, NULL, 0);
    else record(KIND_UNKNOWN, 0, 0, "rename", NULL, NULL, 0);
  }
  unlock();
  return result;
}

static long do_remove(int directory, const char *name, long flags) {
  char buffer[PATH_BYTES];
  const char *path = resolve(directory, name, buffer);
  const char *inner = path ? below(path) : NULL;
  if (!inner) return CALL(__NR_unlinkat, directory, name, flags, 0);
  lock();
  // A full disk can still remove files.
  long result = fault(CLASS_NAME) == ACT_ERROR && control->value != ENOSPC
                    ? -(long)control->value
                    : CALL(__NR_unlinkat, directory, name, flags, 0);
  if (result >= 0) record(KIND_REMOVE, 0, 0, inner, NULL, NULL, 0);
  unlock();
  return result;
}

static long do_make_directory(int directory, const char *name, long mode) {
  char buffer[PATH_BYTES];
  const char *path = resolve(directory, name, buffer);
  const char *inner = path ? below(path) : NULL;
  if (!inner) return CALL(__NR_mkdirat, directory, name, mode, 0);
  lock();
  long result = inode_at(path, NULL) ? -EEXIST
                : fault(CLASS_NAME) == ACT_ERROR ? -(long)control->value
                : CALL(__NR_mkdirat, directory, name, mode, 0);
  if (result >= 0) record(KIND_MAKE_DIRECTORY, inode_at(path, NULL), 0, inner, NULL, NULL, 0);
  unlock();
  return result;
}

// Files, and the names in directories.
static long do_read(long number, const long a[6]) {
  struct stat file;
  if (control && (control->classes & CLASS_READ) && is_ours(a[0], &file) && fault(CLASS_READ) == ACT_ERROR)
    return -(long)control->value;
  return disk_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// What the model cannot follow is performed and noted: a trace with such a note proves nothing.
static long do_unknown(long number, const long a[6], int fd, const char *what) {
  struct stat file;
  if (fd >= 0 && is_ours(fd, &file)) {
    lock();
    record(KIND_UNKNOWN, file.st_ino, 0, what, NULL, NULL, 0);
    unlock();
  }
  return disk_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static long dispatch(long number, const long a[6]) {
  struct iovec one = {(void *)a[1], (size_t)a[2]};
  switch (number) {
#ifdef __NR_open
    case __NR_open: return do_open(AT_FDCWD, (const char *)a[0], a[1], a[2]);
    case __NR_creat: return do_open(AT_FDCWD, (const char *)a[0], O_CREAT | O_WRONLY | O_TRUNC, a[1]);
    case __NR_rename: return do_rename(AT_FDCWD, (const char *)a[0], AT_FDCWD, (const char *)a[1], 0);
    case __NR_unlink: return do_remove(AT_FDCWD, (const char *)a[0], 0);
    case __NR_rmdir: return do_remove(AT_FDCWD, (const char *)a[0], AT_REMOVEDIR);
    case __NR_mkdir: return do_make_directory(AT_FDCWD, (const char *)a[0], a[1]);
#endif
#ifdef __NR_renameat
    case __NR_renameat: return do_rename(a[0], (const char *)a[1], a[2], (const char *)a[3], 0);
#endif
    case __NR_openat: return do_open(a[0], (const char *)a[1], a[2], a[3]);
    case __NR_renameat2: return do_rename(a[0], (const char *)a[1], a[2], (const char *)a[3], a[4]);
    case __NR_unlinkat: return do_remove(a[0], (const char *)a[1], a[2]);
    case __NR_mkdirat: return do_make_directory(a[0], (const char *)a[1], a[2]);
    case __NR_write: return do_write(a[0], &one, 1, -1);
    case __NR_pwrite64: return do_write(a[0], &one, 1, a[3]);
    case __NR_writev: return do_write(a[0], (const struct iovec *)a[1], a[2], -1);
    case __NR_pwritev: return do_write(a[0], (const struct iovec *)a[1], a[2], a[3]);
    case __NR_read: case __NR_pread64: case __NR_readv: case __NR_preadv: case __NR_getdents64:
      return do_read(number, a);
    case __NR_ftruncate: return do_set_length(a[0], a[1]);
    case __NR_fallocate: return do_allocate(a[0], a[1], a[2], a[3]);
    case __NR_fsync: case __NR_fdatasync: return do_sync(number, a[0]);
    case __NR_mmap: return do_unknown(number, a, a[4], "mmap");
    case __NR_copy_file_range: return do_unknown(number, a, a[2], "copy_file_range");
    case __NR_sendfile: return do_unknown(number, a, a[0], "sendfile");
    case __NR_io_uring_setup: return -ENOSYS;
    default: return -ENOSYS;
  }
}

static void on_call(int signal, siginfo_t *info, void *context) {
  (void)signal;
  long a[6];
  arguments(context, a);
  RESULT((ucontext_t *)context) = dispatch(info->si_syscall, a);
}

// ---- start ----

#define FIELD(name) offsetof(struct seccomp_data, name)
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define TRAP(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), RETURN(SECCOMP_RET_TRAP)

static void trap_calls(void) {
  uint64_t ours = (uint64_t)disk_call_end;
  struct sock_filter filter[] = {
      LOAD(FIELD(arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0), RETURN(SECCOMP_RET_ALLOW),
      LOAD(FIELD(instruction_pointer)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)ours, 0, 3),
      LOAD(FIELD(instruction_pointer) + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(ours >> 32), 0, 1), RETURN(SECCOMP_RET_ALLOW),
      LOAD(FIELD(nr)),
#ifdef __NR_open
      TRAP(__NR_open), TRAP(__NR_creat), TRAP(__NR_rename), TRAP(__NR_unlink), TRAP(__NR_rmdir), TRAP(__NR_mkdir),
#endif
#ifdef __NR_renameat
      TRAP(__NR_renameat),
#endif
      TRAP(__NR_openat), TRAP(__NR_renameat2), TRAP(__NR_unlinkat), TRAP(__NR_mkdirat), TRAP(__NR_write),
      TRAP(__NR_pwrite64), TRAP(__NR_writev), TRAP(__NR_pwritev), TRAP(__NR_ftruncate), TRAP(__NR_read),
      TRAP(__NR_pread64), TRAP(__NR_readv), TRAP(__NR_preadv), TRAP(__NR_getdents64),
      TRAP(__NR_fallocate), TRAP(__NR_fsync), TRAP(__NR_fdatasync), TRAP(__NR_copy_file_range),
      TRAP(__NR_sendfile), TRAP(__NR_io_uring_setup),
      // A mapping that is shared and writable.
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mmap, 1, 0), RETURN(SECCOMP_RET_ALLOW),
      LOAD(FIELD(args[2])), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 1, 0), RETURN(SECCOMP_RET_ALLOW),
      LOAD(FIELD(args[3])), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 1, 0), RETURN(SECCOMP_RET_ALLOW),
      RETURN(SECCOMP_RET_TRAP),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_RESTART};
  if (sigaction(SIGSYS, &action, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    abort();
}

__attribute__((constructor)) static void start(void) {
  const char *root_path = getenv("LAZULI_DISK_ROOT"), *trace_path = getenv("LAZULI_DISK_TRACE");
  const char *control_path = getenv("LAZULI_DISK_CONTROL");
  if (!root_path || !trace_path || strlen(root_path) >= PATH_BYTES) return;
  strcpy(root, root_path);
  root_bytes = strlen(root);
  trace = open(trace_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (trace < 0) abort();
  if (control_path) {
    int fd = open(control_path, O_RDWR | O_CLOEXEC);
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || mapped == MAP_FAILED) abort();
    close(fd);
    control = mapped;
  }
  trap_calls();
}
