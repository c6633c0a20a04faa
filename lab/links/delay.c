// A path with a round-trip time, for kernels without netem: two TUN devices, one in each of two network
// namespaces, and what enters one leaves the other half a round trip later. TCP's super-packets pass whole
// (virtio headers, segmentation offload), so a path of several Gbit/s costs little CPU. A rate and a queue that
// overflows make it a bottleneck; random loss is for single packets, so where it may come the offload is off.
//
// delay NAMESPACE NAMESPACE DEVICE RTT_US RATE_MBIT QUEUE_MS LOSS_PER_MILLION SEED super|single
//
// RATE_MBIT 0 is no limit. Prints "ready" when both devices are up. While it runs it reads lines: "rate MBIT",
// "rtt US" and "loss PER_MILLION" hold from then on and are confirmed by the same line, what cannot be done is
// answered with a line that begins with "error". On its end of input it leaves.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Packets under way in one direction, and the bytes kept for them; what comes when either is full is dropped.
#define SLOTS (1 << 16)
#define BYTES (256u << 20)
#define PLENTY (8u << 20)
// A super-packet is at most 64 KiB, with its virtio header a little more.
#define LARGEST (66 << 10)
#define FRAME_MTU 1500
// Packets are taken and given in bunches, as a network card does that interrupts once for several: waking for each
// took most of a processor on a path of many slow connections. A round trip takes 0.1 to 0.2 ms more for it.
#define TICK_NS 100000

struct slot {
    int64_t due;
    uint32_t at, length;
};

struct direction {
    int from, to;
    // What may change meanwhile. The queue holds bytes, so at a lower rate it takes longer to leave it.
    atomic_int_fast64_t delay, queue_bytes, ps_per_byte;
    atomic_uint_fast32_t loss_per_million;
    uint64_t random;
    struct slot *slots;
    unsigned char *bytes;
    uint32_t head, tail, write_at, read_at;
    // When the bottleneck will have sent what it holds.
    int64_t busy_until;
};

static void fail(const char *what)
{
    fprintf(stderr, "delay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

// xorshift64*
static uint32_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * 0x2545F4914F6CDD1Dull) >> 32);
}

static int64_t known(atomic_int_fast64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

// The time a packet occupies the link: a super-packet pays for the headers of all its segments.
static int64_t sending(int64_t ps_per_byte, const unsigned char *packet, uint32_t length)
{
    struct virtio_net_hdr header;
    uint64_t bytes = length - sizeof(header);
    memcpy(&header, packet, sizeof(header));
    if (header.gso_size)
        bytes += (bytes / header.gso_size) * 52;
    return (int64_t)bytes * ps_per_byte / 1000;
}

// Room for the largest packet that does not wrap; the bytes between are left out.
static int room(struct direction *d, uint32_t *at)
{
    if (d->tail - d->head == SLOTS)
        return 0;
    if (d->tail == d->head)
        d->write_at = d->read_at = 0;
    if (d->write_at >= d->read_at) {
        // Back to the front as soon as there is plenty of room, so that the same few megabytes are used over and over:
        // fresh memory takes time, and so does what no cache holds.
        uint32_t held = d->write_at - d->read_at;
        if (BYTES - d->write_at >= LARGEST && d->read_at < PLENTY + 3 * (uint64_t)held) {
            *at = d->write_at;
            return 1;
        }
        if (d->read_at > LARGEST) {
            *at = 0;
            return 1;
        }
        return 0;
    }
    if (d->read_at - d->write_at > LARGEST) {
        *at = d->write_at;
        return 1;
    }
    return 0;
}

static void take(struct direction *d)
{
    static __thread unsigned char dropped[LARGEST];
    for (int i = 0; i < SLOTS; i++) {
        uint32_t at = 0;
        int fits = room(d, &at);
        unsigned char *packet = fits ? d->bytes + at : dropped;
        ssize_t length = read(d->from, packet, LARGEST);
        if (length < 0)
            return;
        int64_t entered = now(), begins = d->busy_until > entered ? d->busy_until : entered;
        int64_t ps_per_byte = known(&d->ps_per_byte);
        if (!fits || (begins - entered) * 1000 > known(&d->queue_bytes) * ps_per_byte)
            continue;
        uint32_t loss = (uint32_t)atomic_load_explicit(&d->loss_per_million, memory_order_relaxed);
        if (loss && next_random(&d->random) % 1000000 < loss)
            continue;
        d->busy_until = begins + sending(ps_per_byte, packet, (uint32_t)length);
        d->slots[d->tail++ % SLOTS] = (struct slot){d->busy_until + known(&d->delay), at, (uint32_t)length};
        d->write_at = at + (uint32_t)length;
    }
}

static void give(struct direction *d)
{
    int64_t time = now();
    while (d->tail != d->head) {
        struct slot *s = &d->slots[d->head % SLOTS];
        if (s->due > time)
            return;
        // A device that is full drops, as a router does.
        if (write(d->to, d->bytes + s->at, s->length) < 0 && errno != EAGAIN && errno != ENOBUFS && errno != EINVAL)
            fail("write");
        d->read_at = s->at + s->length;
        d->head++;
    }
}

static void *relay(void *argument)
{
    struct direction *d = argument;
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    // A link does not wait for a processor: late by its queue's length beside many busy threads, it would drop what no
    // link drops.
    struct sched_param first = {.sched_priority = 10};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &first))
        fprintf(stderr, "delay: no real-time priority; the link is less exact beside busy programs\n");
    for (;;) {
        give(d);
        take(d);
        if (d->tail == d->head) {
            struct pollfd waiting = {d->from, POLLIN, 0};
            poll(&waiting, 1, -1);
        } else {
            struct timespec tick = {0, TICK_NS};
            nanosleep(&tick, NULL);
        }
    }
    return NULL;
}

// A device in that namespace; this process is in it afterwards.
static int device(const char *namespace, const char *name, int offload)
{
    char path[256];
    snprintf(path, sizeof(path), "/run/netns/%s", namespace);
    int there = open(path, O_RDONLY | O_CLOEXEC);
    if (there < 0 || setns(there, CLONE_NEWNET) < 0)
        fail(path);
    close(there);
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun < 0)
        fail("/dev/net/tun");
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    if (ioctl(tun, TUNSETIFF, &request) < 0)
        fail("TUNSETIFF");
    int header = sizeof(struct virtio_net_hdr);
    if (ioctl(tun, TUNSETVNETHDRSZ, &header) < 0)
        fail("TUNSETVNETHDRSZ");
    if (ioctl(tun, TUNSETOFFLOAD, offload ? TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 : TUN_F_CSUM) < 0)
        fail("TUNSETOFFLOAD");
    int socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request.ifr_mtu = FRAME_MTU;
    if (ioctl(socket_, SIOCSIFMTU, &request) < 0)
        fail("SIOCSIFMTU");
    // What waits for this program; by default few super-packets.
    request.ifr_qlen = 20000;
    if (ioctl(socket_, SIOCSIFTXQLEN, &request) < 0)
        fail("SIOCSIFTXQLEN");
    if (ioctl(socket_, SIOCGIFFLAGS, &request) < 0)
        fail("SIOCGIFFLAGS");
    request.ifr_flags |= IFF_UP;
    if (ioctl(socket_, SIOCSIFFLAGS, &request) < 0)
        fail("SIOCSIFFLAGS");
    close(socket_);
    return tun;
}

static void set_rate(struct direction *directions, double mbit, double queue_ms)
{
    for (int i = 0; i < 2; i++) {
        // The queue is as long as the first rate asks for, and stays so.
        if (mbit > 0 && !directions[i].queue_bytes)
            directions[i].queue_bytes = (int64_t)(mbit * 125.0 * queue_ms);
        directions[i].ps_per_byte = mbit > 0 ? (int64_t)(8e6 / mbit) : 0;
    }
}

// Does what the line says. NULL, or why not.
static const char *obey(struct direction *directions, const char *line, double queue_ms, int whole)
{
    char word[16], rest;
    double value;
    if (sscanf(line, "%15s %lf %c", word, &value, &rest) != 2 || !(value >= 0))
        return "a command is a word and a number";
    if (!strcmp(word, "rate")) {
        set_rate(directions, value, queue_ms);
    } else if (!strcmp(word, "rtt")) {
        for (int i = 0; i < 2; i++)
            directions[i].delay = (int64_t)(value * 500);
    } else if (!strcmp(word, "loss")) {
        if (whole && value > 0)
            return "super-packets are not lost one by one; start it with single ones";
        for (int i = 0; i < 2; i++)
            directions[i].loss_per_million = (uint32_t)value;
    } else {
        return "it knows rate, rtt and loss";
    }
    return NULL;
}

int main(int count, char **words)
{
    int whole = count == 10 && !strcmp(words[9], "super");
    if (count != 10 || (!whole && strcmp(words[9], "single")) || (whole && atol(words[7]))) {
        fprintf(stderr, "usage: delay NAMESPACE NAMESPACE DEVICE RTT_US RATE_MBIT QUEUE_MS LOSS_PER_MILLION SEED "
                        "super|single (loss needs single)\n");
        return 2;
    }
    double queue_ms = atof(words[6]);
    int ends[2] = {device(words[1], words[3], whole), device(words[2], words[3], whole)};
    // A path does not get longer because the machine is busy; it is a few per cent of a processor.
    if (setpriority(PRIO_PROCESS, 0, -15) < 0)
        fail("setpriority");
    static struct direction directions[2];
    for (int i = 0; i < 2; i++) {
        directions[i] = (struct direction){
            .from = ends[i],
            .to = ends[1 - i],
            .delay = atoll(words[4]) * 500,
            .loss_per_million = (uint32_t)atol(words[7]),
            .random = strtoull(words[8], NULL, 10) * 2 + i + 0x9E3779B97F4A7C15ull,
            .slots = calloc(SLOTS, sizeof(struct slot)),
            .bytes = malloc(BYTES),
        };
        if (!directions[i].slots || !directions[i].bytes)
            fail("memory");
    }
    set_rate(directions, atof(words[5]), queue_ms);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, relay, &directions[i]))
            fail("thread");
    }
    puts("ready");
    fflush(stdout);
    char line[128];
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = 0;
        const char *why = obey(directions, line, queue_ms, whole);
        printf("%s%s\n", why ? "error: " : "", why ? why : line);
        fflush(stdout);
    }
    return 0;
}
