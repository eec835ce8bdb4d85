"""What must not change while modules move and things are renamed: see `make` for how it was recorded."""
