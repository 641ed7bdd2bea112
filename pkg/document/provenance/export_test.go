package provenance

// For the tests outside the package.
const MaxDependencies = maxDependencies
const MaxListed = maxListed
const MaxParameters = maxParameters
const MaxValues = maxValues
