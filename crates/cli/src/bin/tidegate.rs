//! The program `tidegate`.

fn main() -> std::process::ExitCode {
    tidegate::main(std::env::args_os())
}
