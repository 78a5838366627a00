package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	kubefake "helm.sh/helm/v4/pkg/kube/fake"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// render4 gives what `helm template rel CHART -n ns --include-crds --kube-version 1.34.0` of Helm 4 prints.
func render4(files []file, values string) (text string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	buffered := []*archive.BufferedFile{}
	for _, f := range files {
		buffered = append(buffered, &archive.BufferedFile{Name: f.name, Data: f.data})
	}
	chart, err := loader.LoadFiles(buffered)
	if err != nil {
		return "", err
	}
	user, err := loader.LoadValues(strings.NewReader(values))
	if err != nil {
		return "", err
	}
	configuration := action.NewConfiguration()
	configuration.Releases = storage.Init(driver.NewMemory())
	configuration.KubeClient = &kubefake.PrintingKubeClient{Out: io.Discard}
	install := action.NewInstall(configuration)
	install.DryRunStrategy = action.DryRunClient
	install.Replace, install.IncludeCRDs = true, true
	install.ReleaseName, install.Namespace = "rel", "ns"
	install.KubeVersion, err = common.ParseKubeVersion("1.34.0")
	if err != nil {
		return "", err
	}
	if t := chart.Metadata.Type; t != "" && t != "application" {
		return "", fmt.Errorf("%s charts are not installable", t)
	}
	for _, wanted := range chart.Metadata.Dependencies {
		found := false
		for _, have := range chart.Dependencies() {
			found = found || have.Name() == wanted.Name
		}
		if !found {
			return "", errors.New("a dependency is missing in charts/: " + wanted.Name)
		}
	}
	done, err := install.Run(chart, user)
	if err != nil {
		return "", err
	}
	made, ok := done.(*release.Release)
	if !ok {
		return "", errors.New("a release of an unknown version")
	}
	var out strings.Builder
	fmt.Fprintln(&out, strings.TrimSpace(made.Manifest))
	for _, hook := range made.Hooks {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return out.String(), nil
}
