package git

import "strings"

// Split splits REPOSITORY@REF; an @ before the last slash belongs to the
// address. The reference is empty if none is given.
func Split(text string) (repository, ref string) {
	at := strings.LastIndexByte(text, '@')
	if at < 0 || strings.Contains(text[at:], "/") && !strings.Contains(text[at:], "refs/") {
		return text, ""
	}
	return text[:at], text[at+1:]
}

// IsRemote reports whether a repository is reached through a network.
func IsRemote(repository string) bool {
	scheme, _, found := strings.Cut(repository, "://")
	return found && scheme != "git+file"
}
