from concurrent.futures import ProcessPoolExecutor
from PIL import Image
from pathlib import Path


def thumb(path):
    with Image.open(path) as im:
        im.thumbnail((256, 256))
        im.save(path.with_suffix(".thumb.jpg"))
    return path.name


if __name__ == "__main__":
    with ProcessPoolExecutor() as pool:
        for name in pool.map(thumb, Path("photos").glob("*.jpg")):
            print(name)
