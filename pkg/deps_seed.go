package pkg

import (
	_ "github.com/google/go-containerregistry/pkg/name"
	_ "github.com/google/go-containerregistry/pkg/v1/layout"
	_ "github.com/google/go-containerregistry/pkg/v1/mutate"
	_ "github.com/google/go-containerregistry/pkg/v1/remote"
	_ "github.com/google/go-containerregistry/pkg/v1/tarball"
	_ "github.com/sigstore/sigstore-go/pkg/bundle"
	_ "github.com/sigstore/sigstore-go/pkg/root"
	_ "github.com/sigstore/sigstore-go/pkg/sign"
	_ "github.com/sigstore/sigstore-go/pkg/verify"
	_ "github.com/sigstore/sigstore/pkg/cryptoutils"
	_ "github.com/spdx/tools-golang/json"
	_ "github.com/spdx/tools-golang/spdx/v2/v2_3"
	_ "github.com/spf13/cobra"
	_ "go.yaml.in/yaml/v3"
	_ "gocloud.dev/blob"
	_ "gocloud.dev/blob/gcsblob"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "github.com/rogpeppe/go-internal/testscript"
)
