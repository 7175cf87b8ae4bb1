// Package cni removes the CNI files and host-local addresses of sandboxes that are gone.
package cni
