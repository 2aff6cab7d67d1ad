//! The nursery of sandboxes with a guard taken out.

fn main() -> std::io::Result<()> {
    pinfold_keeper::nursery::run()
}
