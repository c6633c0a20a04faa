# Trees of Debian's newest release with Python, to try in what was built for other systems than this: sourced by scripts that
# set $tools to the directory where all of it is kept, an absolute path. Nothing is installed here.

RELEASE=trixie

# of_release ARGUMENTS...: apt-get for that release, for x86-64 and aarch64, with lists of its own, from where this machine
# has its packages.
of_release() {
    local home=$tools/roots/apt site
    site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
    [ -n "$site" ] || { echo "apt knows no packages: apt-get update"; return 1; }
    mkdir -p "$home/lists/partial" "$home/cache/archives/partial"
    echo "deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $RELEASE main" >"$home/sources.list"
    apt-get -qq -o Dir::State::lists="$home/lists" -o Dir::Cache="$home/cache" -o Dir::Etc::sourcelist="$home/sources.list" \
        -o Dir::Etc::sourceparts=/dev/null -o APT::Architectures::=arm64 -o APT::Sandbox::User=root "$@"
}

# root_for ARCHITECTURE: such a tree for amd64 or arm64, in $root. What is for arm64 is run by a qemu in it: Debian's here may
# be older than 9.2, the first that knows openat2.
root_for() {
    local packages=$tools/roots/packages-$1 name
    root=$tools/roots/$1
    [ "$(id -u)" = 0 ] || { echo "only root can try what is for another system"; return 1; }
    [ -e "$root/complete" ] && return
    rm -rf "$root" "$packages"
    mkdir -p "$root/usr/lib" "$root"/{tmp,proc,dev} "$packages"
    ln -s usr/lib "$root/lib"
    [ "$1" = arm64 ] || { mkdir "$root/usr/lib64" && ln -s usr/lib64 "$root/lib64"; }
    of_release update || return
    (
        cd "$packages" || exit
        for name in python3.13-minimal libpython3.13-minimal libpython3.13-stdlib libc6 libgcc-s1 zlib1g libexpat1 libssl3t64 \
            libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libcrypt1 libncursesw6 libtinfo6 libreadline8t64 libzstd1
        do
            of_release download "$name:$1" || exit
        done
        [ "$1" = amd64 ] || of_release download qemu-user:amd64 || exit
        for name in *.deb; do dpkg-deb --extract "$name" "$root" || exit; done
    ) || return
    rm -rf "$packages"
    touch "$root/complete"
}

# in_root ARCHITECTURE PROGRAM...: runs a program of that tree in it, as root.
in_root() {
    local root=$tools/roots/$1 by=()
    [ "$1" = amd64 ] || by=(/usr/bin/qemu-aarch64)
    shift
    # What is mounted is so for it alone.
    # shellcheck disable=SC2016
    unshare --mount sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' \
        "$root" "${by[@]}" "$@"
}
