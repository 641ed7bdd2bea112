package intoto

// For the tests outside the package.
const MaxLines = maxLines
const MaxSubjects = maxSubjects
