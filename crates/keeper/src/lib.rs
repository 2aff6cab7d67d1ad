//! Process 1 of a Linux sandbox: starts, watches and ends what runs in it, by itself if it must.

pub mod confine;
