# Debian packages that a script wants: sourced by scripts.

# is_here COMMAND: whether it can be used. A module of Python is written python3:MODULE, a file by its path.
is_here() {
    case $1 in
        /*) [ -e "$1" ] ;;
        python3:*) python3 -c "import ${1#*:}" 2>/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

# install_missing LIST: installs the packages of what is missing of a list, each line a command and its package, and says
# so before; TIDEGATE_NO_INSTALL=1 forbids it.
install_missing() {
    local command package log
    local -a missing=()
    while read -r command package; do
        [ -z "$command" ] || is_here "$command" || missing+=("$package")
    done <<<"$1"
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ -n "${TIDEGATE_NO_INSTALL:-}" ]; then
        echo "missing, and not installed since TIDEGATE_NO_INSTALL is set: ${missing[*]}"
    elif [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "installing these Debian packages now (TIDEGATE_NO_INSTALL=1 forbids it): ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        # One that a release does not have must not keep the others away.
        for package in "${missing[@]}"; do
            log=$(apt-get install -y --no-install-recommends "$package" 2>&1) && continue
            [ -n "${updated:-}" ] || { updated=yes; apt-get update >/dev/null 2>&1; }
            log=$(apt-get install -y --no-install-recommends "$package" 2>&1) ||
                echo "could not install $package: $(grep -m 1 '^E:' <<<"$log")"
        done
    else
        echo "missing: ${missing[*]}; as root, this script installs them"
    fi
}
