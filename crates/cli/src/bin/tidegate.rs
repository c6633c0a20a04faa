//! The program `tidegate`.

/// musl's own allocator takes one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tidegate::main(std::env::args_os())
}
