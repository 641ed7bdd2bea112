//go:build !race

package policy_test

const watched = false
