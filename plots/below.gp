# The legend of `entries` in `columns` columns, below the picture: so the picture has all of the width.
below = 0.118 + 0.0275 * int((entries + columns - 1) / columns)
set bmargin at screen below
eval sprintf("set key at screen 0.53, screen 0.012 bottom center horizontal Left reverse maxcols %d samplen 2.2 spacing 1.15 font '%s'", columns, small)
