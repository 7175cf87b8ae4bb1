// Package manifests tests the Helm chart with helm: make lint-chart builds it from this module and names it in HELM.
//
// What is rendered is decoded strictly into Kubernetes' own types, so that a misspelled field is an error.
package manifests
