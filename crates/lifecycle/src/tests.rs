//! Examples: one promise of the lifecycle each.
