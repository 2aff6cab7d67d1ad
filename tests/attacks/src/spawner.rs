//! The spawner of sandboxes with a guard disabled.

fn main() -> std::io::Result<()> {
    pinfold_keeper::spawner::run()
}
