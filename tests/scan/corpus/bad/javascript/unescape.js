window['ev' + 'al'](unescape('%61%6c%65%72%74%28%31%29'));
