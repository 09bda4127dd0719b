//! Link settings of the extension.

fn main() {
    // Our threads may still run when PHP unloads its extensions at exit: keep the code.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
