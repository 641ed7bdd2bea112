package policy

// For the tests outside the package.
type Case = testCase

func ParseCases(archive []byte) ([]Case, error) { return parseCases(archive) }
