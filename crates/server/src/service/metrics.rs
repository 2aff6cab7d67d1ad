//! Figures of all sandboxes. `counting.rs` keeps them, `standing.rs` looks how things are now, `figures.rs` is what those
//! who judge them take, and `told.rs` what the API says.

mod counting;
mod figures;
mod history;
mod standing;
mod told;

pub(super) use counting::Counting;
pub use figures::Figures;
