// Sleeps with known callers: in the first thread, in a second one, in a process without a program of its own, below code
// that is made while it runs, and until another process writes.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// What stands behind the call keeps the compiler from leaving the caller out.
#define KEPT __asm__ volatile("")

__attribute__((noinline)) void leaf(void) {
    usleep(2000);
    KEPT;
}

__attribute__((noinline)) void middle(int deep) {
    char room[256];
    __asm__ volatile("" ::"r"(room) : "memory");
    if (deep > 0) {
        middle(deep - 1);
    } else {
        leaf();
    }
    KEPT;
}

__attribute__((noinline)) void outer(void) {
    for (int i = 0; i < 20; i++) {
        middle(2);
    }
    KEPT;
}

static void *worker(void *nothing) {
    outer();
    KEPT;
    return nothing;
}

__attribute__((noinline)) void child(void) {
    outer();
    KEPT;
}

__attribute__((noinline)) void tell(int pipe) {
    if (write(pipe, "x", 1) != 1) {
        _exit(1);
    }
    KEPT;
}

__attribute__((noinline)) void hear(int pipe) {
    char said;
    if (read(pipe, &said, 1) != 1) {
        _exit(1);
    }
    KEPT;
}

#ifdef __x86_64__
__attribute__((noinline)) void run(void) {
    // push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
    void *made = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(made, code, sizeof code);
    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %zx made while it ran\n", (unsigned long)made, sizeof code);
    fclose(map);
    for (int i = 0; i < 20; i++) {
        ((void (*)(void (*)(void)))made)(leaf);
    }
    KEPT;
}
#else
void run(void) {}
#endif

int main(int count, char **words) {
    pthread_t thread;
    pthread_create(&thread, 0, worker, 0);
    outer();
    pthread_join(thread, 0);
    int ends[2];
    if (pipe(ends) != 0) {
        return 1;
    }
    if (fork() == 0) {
        child();
        tell(ends[1]);
        _exit(0);
    }
    hear(ends[0]);
    wait(0);
    // The table of names for made code stays in /tmp: who wants it removes it.
    if (count > 1) {
        run();
    }
    return words == 0;
}
