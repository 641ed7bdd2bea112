package digest

// For the tests outside the package.
type Summer = summer
