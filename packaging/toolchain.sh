# Tools that only packagers need, and compilers for another C library or processor: sourced by scripts that set $tools to
# the directory where all of it is kept, an absolute path.
#
# zig, from PyPI, compiles C and links, driven by cargo-zigbuild or maturin. The standard library of a target is rustup's
# (`rustup target add`). Where rustup reaches no server, Debian's rustc-web and the sources in rust-web-src make one, once:
# they are unpacked beneath $tools/rust, and nothing is installed. Rust promises nothing for that way.

# python_tools NAME REQUIREMENT...: programs from PyPI, in an environment of that name, on the search path.
python_tools() {
    local home=$tools/$1; shift
    if [ ! -e "$home/complete" ]; then
        python3 -m venv "$home" &&
            "$home/bin/python" -m pip install --quiet --no-input --disable-pip-version-check "$@" &&
            touch "$home/complete" || return
    fi
    export PATH="$home/bin:$PATH"
}

# zig_tools: zig and cargo-zigbuild.
zig_tools() {
    python_tools zig 'cargo-zigbuild>=0.24,<0.25' 'ziglang>=0.17,<0.18' || return
    # It opens each library of a program at once.
    ulimit -n "$(ulimit -H -n)"
}

# has_std TARGET: whether rustc, or $RUSTC, has its standard library.
has_std() {
    compgen -G "$("${RUSTC:-rustc}" --print target-libdir --target "$1")/libstd-*.rlib" >/dev/null
}

# rust_for TARGET: has cargo use a compiler, in $RUSTC, that has the standard library of that target.
rust_for() {
    unset RUSTC
    has_std "$1" && return
    [ -x "$tools/rust/rustc" ] || unpack_debian_rust || return
    export RUSTC=$tools/rust/rustc
    has_std "$1" || build_std "$1"
}

# unpack_debian_rust: Debian's newest compiler and the sources of its standard library.
unpack_debian_rust() {
    local home=$tools/rust version package
    command -v apt-get >/dev/null || { echo "no standard library for it: rustup target add"; return 1; }
    version=$(apt-cache show --no-all-versions rustc-web | sed -nE 's/^Version: ([0-9]+\.[0-9]+).*/\1/p')
    [ -n "$version" ] || { echo "no standard library for it, and Debian's index has no rustc-web: apt-get update"; return 1; }
    mkdir -p "$home/packages"
    (
        cd "$home/packages" || exit
        apt-get download -qq rustc-web rust-web-src "libstd-rust-web-$version" libstd-rust-web-dev \
            "$(apt-cache depends "libstd-rust-web-$version" | sed -nE 's/^ *Depends: (libllvm.*)/\1/p')" || exit
        for package in *.deb; do dpkg-deb --extract "$package" "$home" || exit; done
    ) || return
    printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$home/usr/lib/$(uname -m)-linux-gnu" \
        "$home/usr/bin/rustc" >"$home/rustc"
    chmod 755 "$home/rustc"
}

# build_std TARGET: the standard library, as a program without any is given one, put where the compiler looks.
build_std() {
    local home=$tools/rust/std libraries
    libraries=$("$RUSTC" --print target-libdir --target "$1")
    mkdir -p "$home/src" "$libraries"
    printf '[package]\nname = "of-target"\nedition = "2024"\n[workspace]\n' >"$home/Cargo.toml"
    echo '#![no_std]' >"$home/src/lib.rs"
    # Its messages name its sources as rustup's do, wherever they are here; and it takes part in optimising whole programs.
    RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$home/target \
        RUSTFLAGS="--remap-path-prefix=$tools/rust/usr/lib/rustlib/src/rust=/rustc -Cembed-bitcode=yes" cargo build --manifest-path "$home/Cargo.toml" --release \
        -Zbuild-std=std,panic_abort,panic_unwind --target "$1" || return
    cp "$home/target/$1"/release/deps/*.rlib "$libraries/"
    rm "$libraries"/libof_target-*
    # With musl rustc names the objects that a program begins and ends with; cargo-zigbuild leaves them out, zig has its own.
    mkdir -p "$libraries/self-contained"
    touch "$libraries"/self-contained/{crt1,rcrt1,Scrt1,crti,crtbegin,crtbeginS,crtend,crtendS,crtn}.o
}
