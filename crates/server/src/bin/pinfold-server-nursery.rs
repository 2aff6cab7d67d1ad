//! The nursery as a program of its own, for the tests of this crate. `pinfold` is its own nursery.

fn main() -> std::io::Result<()> {
    pinfold_keeper::nursery::run()
}
