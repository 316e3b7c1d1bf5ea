"""The commands of `hipsnet`, grouped by what they are about."""
