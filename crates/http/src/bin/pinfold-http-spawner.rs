//! The spawner (the fork server of keepers) as a program of its own, for the tests of this crate. `pinfold` is its own
//! spawner.

fn main() -> std::io::Result<()> {
    pinfold_keeper::spawner::run()
}
