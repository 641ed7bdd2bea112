package vsa

// For the tests outside the package.
const MaxInputs = maxInputs
const MaxLevels = maxLevels

func ParseLevel(text string) (Level, error) { return parseLevel(text) }
