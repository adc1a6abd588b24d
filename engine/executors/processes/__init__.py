"""Task managers as processes of this machine: how they begin, what they print, how they end. Needs Linux."""
