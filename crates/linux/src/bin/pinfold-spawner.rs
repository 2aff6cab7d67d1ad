//! The spawner as a separate program, for the tests of this crate. `pinfold` itself is its own spawner.

fn main() -> std::io::Result<()> {
    pinfold_keeper::spawner::run()
}
