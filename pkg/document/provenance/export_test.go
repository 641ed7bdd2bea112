package provenance

// For the tests outside the package.
const MaxDependencies = maxDependencies
const MaxParameters = maxParameters
const MaxValues = maxValues
