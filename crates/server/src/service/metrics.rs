//! Figures of all sandboxes. `counting.rs` keeps them, `thinning.rs` makes less of what is old, `archiving.rs` keeps that
//! for ever, `standing.rs` looks how things are now, `figures.rs` is what those who judge them take, and `told.rs` what
//! the API says.

mod archiving;
mod counting;
mod figures;
mod history;
mod standing;
mod thinning;
mod told;

pub(super) use counting::Counting;
pub use figures::Figures;
