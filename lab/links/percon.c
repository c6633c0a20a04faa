// Caps every TCP connection of a control group: each socket is given a pacing rate when its
// connection is made or accepted. The rate is read from a map, so it can change between runs, and
// within one if `follow` is set: connections then look at the map at every round trip.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} bytes_per_second SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} follow SEC(".maps");

SEC("sockops")
int cap(struct bpf_sock_ops *ops)
{
    __u32 key = 0;
    __u32 *rate = bpf_map_lookup_elem(&bytes_per_second, &key);
    __u32 *changes = bpf_map_lookup_elem(&follow, &key);

    if (!rate || !*rate)
        return 1;
    switch (ops->op) {
    case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
    case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
        if (changes && *changes)
            bpf_sock_ops_cb_flags_set(ops, BPF_SOCK_OPS_RTT_CB_FLAG);
        /* fall through */
    case BPF_SOCK_OPS_TCP_CONNECT_CB:
    case BPF_SOCK_OPS_RTT_CB:
        bpf_setsockopt(ops, SOL_SOCKET, SO_MAX_PACING_RATE, rate, sizeof(*rate));
    }
    return 1;
}

char _license[] SEC("license") = "Dual MIT/GPL";
